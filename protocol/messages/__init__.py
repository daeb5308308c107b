"""One module per Kafka API: the fields of its request and response, per version. Declarations only."""
