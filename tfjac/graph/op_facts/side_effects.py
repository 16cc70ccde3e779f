"""Ops that do something besides computing: checks, prints, tables, what replicas exchange."""

from tfjac.graph.facts import declare

declare("Assert", kind="assertion", repeatable=True)
declare("Print PrintV2 DebugIdentityV2", repeatable=True)
declare("LookupTableFindV2 LookupTableSizeV2", repeatable=True)
declare("AllToAll CollectivePermute CrossReplicaSum NcclAllReduce NcclBroadcast NcclReduce", repeatable=True)
