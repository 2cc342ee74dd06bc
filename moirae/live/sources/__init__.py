"""Sources of records: files, Kafka topics, landing folders, and tables of relations."""
