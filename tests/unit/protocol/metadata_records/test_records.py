from __future__ import annotations

import pytest
from tidelog.protocol.metadata_records import (
    RECORDS,
    ClientQuotaRecord,
    MetadataRecord,
    QuotaEntity,
    decode_record,
    encode_record,
)


@pytest.mark.parametrize("cls", RECORDS.values(), ids=lambda cls: cls.__name__)
def test_every_declaration_in_every_version(cls: type[MetadataRecord]) -> None:
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        assert decode_record(encode_record(cls(), version)) == (cls.RECORD_TYPE, version, cls())


def test_each_type_is_declared_once() -> None:
    assert len(RECORDS) == len(MetadataRecord.__subclasses__())


def test_a_quota_of_the_default_user() -> None:
    quota = ClientQuotaRecord(entity=[QuotaEntity(entity_type="user", entity_name=None)], key="k", value=1.5)
    entity = "02" + "05" + b"user".hex() + "00" + "00"
    assert encode_record(quota, 0).hex() == "010e00" + entity + "026b" + "3ff8000000000000" + "00" + "00"
    assert decode_record(encode_record(quota, 0)).message == quota
