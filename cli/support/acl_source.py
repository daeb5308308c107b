"""Access rules for `tidelog acls`: those of a running daemon, or in the data of a stopped one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...broker.security.acl.rules import AclFilter, Policy, acl_of

if TYPE_CHECKING:
    from ...broker.security.acl.model import Acl
    from ...protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
    from ...protocol.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource
    from .kafka_client import KafkaClient
    from .offline import StoppedDaemon

FilterT = TypeVar("FilterT", "DescribeAclsRequest", "DeleteAclsFilter")


class AclSource(Protocol):
    """Each method raises KafkaFailure, or KafkaStorageError, when it can't be done."""

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Rules that a filter finds."""

    def create(self, rules: Sequence[Acl]) -> None:
        """Adds rules; those that are there stay."""

    def delete(self, wanted: AclFilter) -> list[Acl]:
        """Deletes the rules that a filter finds, and tells them."""

    def policy(self) -> Policy | None:
        """Settings that decide besides rules; None if they are unknown."""

    def is_on(self) -> bool:
        """True if the daemon has an authorizer."""


@contextmanager
def acl_source(options: Any) -> Iterator[AclSource]:
    """Open the source of rules that the arguments name: a daemon, or the data of a stopped one."""
    from .offline import is_offline, stopped_daemon

    if is_offline(options):
        with stopped_daemon(options) as daemon:
            yield Stopped(daemon)
    else:
        from .kafka_client import client_of

        with client_of(options) as client:
            yield Asked(client)


class Stopped:
    """Rules in `metadata.db` of a stopped daemon."""

    def __init__(self, daemon: StoppedDaemon) -> None:
        """DataDirectoryError where a rule can't be read."""
        from ...broker.metadata.store import ACL
        from ...broker.security.acl.authorizer import AclAuthorizer

        self._config = daemon.config
        self._authorizer = AclAuthorizer.read(daemon.stored.resources.get(ACL, {}), daemon.store, daemon.config)

    def find(self, wanted: AclFilter) -> list[Acl]:
        return self._authorizer.rules.find(wanted)

    def create(self, rules: Sequence[Acl]) -> None:
        from .kafka_client import KafkaFailure

        for error in asyncio.run(self._authorizer.create(rules)):
            if error is not None:
                raise KafkaFailure(error.message)

    def delete(self, wanted: AclFilter) -> list[Acl]:
        (found,) = asyncio.run(self._authorizer.delete([wanted]))
        return found

    def policy(self) -> Policy | None:
        return self._authorizer.policy

    def is_on(self) -> bool:
        return bool(self._config.authorizer_class_name)


class Asked:
    """Rules of a daemon, of Apache Kafka's too."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    def find(self, wanted: AclFilter) -> list[Acl]:
        from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
        from .kafka_client import check

        answer = self._client.ask(_filter(DescribeAclsRequest, wanted), DescribeAclsResponse)
        check("access rules", answer.error_code, answer.error_message)
        return [_rule(resource, acl) for resource in answer.resources for acl in resource.acls]

    def create(self, rules: Sequence[Acl]) -> None:
        from ...protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
        from .kafka_client import check

        creations = [
            AclCreation(
                resource_type=rule.resource_type,
                resource_name=rule.resource_name,
                resource_pattern_type=rule.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in rules
        ]
        for result in self._client.ask(CreateAclsRequest(creations=creations), CreateAclsResponse).results:
            check("access rules", result.error_code, result.error_message)

    def delete(self, wanted: AclFilter) -> list[Acl]:
        from ...protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
        from .kafka_client import check

        request = DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, wanted)])
        found = []
        for result in self._client.ask(request, DeleteAclsResponse).filter_results:
            check("access rules", result.error_code, result.error_message)
            for acl in result.matching_acls:
                check("access rules", acl.error_code, acl.error_message)
                found.append(_rule(acl, acl))
        return found

    def policy(self) -> Policy | None:
        from ...broker.security.acl.authorizer import policy_of
        from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
        from ..configs import RESOURCES, described
        from .kafka_client import KafkaFailure

        answer = self._client.ask(DescribeClusterRequest(), DescribeClusterResponse)
        node = str(answer.controller_id if answer.controller_id >= 0 else answer.brokers[0].broker_id)
        names = ["super.users", "allow.everyone.if.no.acl.found"]
        try:
            (found,) = described(self._client, [(RESOURCES["broker"], node)], names)
        except KafkaFailure:
            return None
        values = {setting.name: setting.value for setting in found}
        if any(values.get(name) is None for name in names):
            return None
        return policy_of(values[names[0]] or "", values[names[1]] == "true")

    def is_on(self) -> bool:
        return True  # else the daemon says SECURITY_DISABLED


def _filter(kind: type[FilterT], wanted: AclFilter) -> FilterT:
    """The filter as a request of this kind has it."""
    return kind(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _rule(resource: DescribeAclsResource | DeleteAclsMatchingAcl, acl: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    """The rule about this resource in an answer. KafkaFailure for a rule of a newer Kafka."""
    from .kafka_client import KafkaFailure

    try:
        return acl_of(resource, acl)
    except ValueError as error:
        raise KafkaFailure(
            f"a rule for {acl.principal} is not understood: {error}; a newer tidelog may know it"
        ) from None
