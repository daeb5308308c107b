"""What may be wrong: the record, the schema, or the registry. Only the first is the record's fault."""

from __future__ import annotations


class SchemasError(Exception):
    """Base of these exceptions."""


class BadRecordError(SchemasError):
    """The bytes of one value are not what its schema says. The text is the reason, for whoever mends the producer."""


class SchemaError(SchemasError):
    """A schema is none, has no columns, or something is missing that it needs."""


class UnknownSchemaError(SchemaError):
    """The registry has no such id, subject or version."""


class RegistryError(SchemasError):
    """The registry cannot be reached, does not let us in, or answers what no registry does."""
