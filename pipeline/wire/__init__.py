"""The pipeline's side of the Kafka client in `clients/kafka`: one thread, any broker from 0.10 on.

    with KafkaClient(ClientSettings.parse("localhost:9092")) as client:
        answer = client.request(ListTransactionsRequest(), ListTransactionsResponse, up_to=1)
        answer = client.request_coordinator("my-tx", CoordinatorKind.TRANSACTION, InitProducerIdRequest(...), ..., up_to=4)

Start reading at `client.py`: the cluster, which broker to ask, and when to ask again. `settings.py` is what a client is told, by
Kafka's names; `partitions.py` is what is asked of a partition's leader; `pool.py` keeps clients between tasks; `errors.py` makes
exceptions of `pipeline/exceptions.py` of what a connection met. Imports neither pyspark nor pyarrow.
"""
