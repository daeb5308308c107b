"""DescribeClientQuotas, API key 48, versions 0 and 1 (flexible): entities that match a filter, with their quotas (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_client_quotas import EntityData
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from ..quotas.quota import Component, Match, check_filter
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    (0, 1),
    DescribeClientQuotasRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE_CONFIGS),),
    many_names=True,
)
def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse | ChunkedResult[DescribeClientQuotasResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeClientQuotasRequest, context: RequestContext) -> Steps[DescribeClientQuotasResponse]:
    try:
        components = check_filter(_component(component) for component in request.components)
    except ProtocolError as error:
        code, message = error_code(error)
        return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
    entries = []
    for _, entity, values in (yield from context.services.quotas.describe(components, request.strict)):
        entries.append(
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
        )
        yield 1
    return DescribeClientQuotasResponse(entries=entries)


def _component(component: ComponentData) -> Component:
    try:
        match = Match(component.match_type)
    except ValueError:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"there is no match type {component.match_type}") from None
    return Component(component.entity_type, match, component.match)
