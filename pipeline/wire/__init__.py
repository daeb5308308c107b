"""A Kafka client for the pipeline: one thread, blocking sockets, this project's own messages. Works with any broker from 0.10 on.

    with KafkaClient(ClientSettings.parse("localhost:9092")) as client:
        answer = client.request(ListTransactionsRequest(), ListTransactionsResponse, up_to=1)
        answer = client.request_coordinator("my-tx", CoordinatorKind.TRANSACTION, InitProducerIdRequest(...), ..., up_to=4)

Start reading at `client.py`: the cluster, which broker to ask, and when to ask again. `connection.py` is one broker's requests
and answers, `settings.py` what a client is told, `transport.py` how bytes get to a broker (the one place for TLS),
`authentication.py` SASL. Imports neither pyspark nor pyarrow. Errors are those of `pipeline/exceptions.py`.
"""
