# tidelog in a container: docker build -t tidelog . && docker run -p 9092:9092 -v tidelog:/data tidelog
#
# Settings come as TIDELOG_* variables (TIDELOG_LOG_RETENTION_MS=…) or as arguments: docker run … tidelog serve --set …
# Runs as any user; a mounted data directory must be writable for that user. Behind a mirror or a proxy, pip's own
# variables are build arguments: --build-arg PIP_INDEX_URL=…

FROM python:3.11-slim AS build
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_CERT
ARG PIP_DEFAULT_TIMEOUT
ARG SSL_CERT_FILE
ARG SSL_CERT_DIR
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The kernels are compiled here; the second stage has neither compiler nor pip.
RUN pip wheel --no-cache-dir --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/tidelog \
    && pip --python /opt/tidelog/bin/python install --no-cache-dir --no-index --find-links /wheels tidelog

FROM python:3.11-slim
LABEL org.opencontainers.image.title="tidelog" \
      org.opencontainers.image.description="A log daemon that speaks Kafka's wire protocol and keeps Kafka's files" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/tidelog /opt/tidelog
# Writable for every user id, because platforms pick one of their own; a fresh named volume takes this mode over.
RUN mkdir -m 0777 /data
# A container's loopback is its own: here, unlike everywhere else, the listeners bind all interfaces.
ENV PATH=/opt/tidelog/bin:$PATH \
    TIDELOG_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    TIDELOG_HTTP_LISTENER=0.0.0.0:9404 \
    TIDELOG_LOG_DIRS=/data
USER 10001:0
WORKDIR /data
VOLUME ["/data"]
# 9093 serves the message-set protocol when TIDELOG_MESSAGE_SET_LISTENERS=tcp://0.0.0.0:9093 asks for it.
EXPOSE 9092 9093 9404
STOPSIGNAL SIGTERM
# Ready means that recovery is over and the listeners accept; -I -S start in a few milliseconds.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/opt/tidelog/bin/python", "-I", "-S", "-c", \
    "import os, socket; address = os.environ['TIDELOG_HTTP_LISTENER']; http = socket.create_connection(('127.0.0.1', int(address.rpartition(':')[2])), 4); http = __import__('ssl')._create_unverified_context().wrap_socket(http) if address.startswith('https') else http; http.sendall(b'GET /health/ready HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(b' 200 ' not in http.recv(64))"]
ENTRYPOINT ["tidelog"]
CMD ["serve"]
