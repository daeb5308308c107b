"""One module per Kafka API, registered in `registry.py` with the versions that it answers."""
