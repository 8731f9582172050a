//! What both sets of tools answer alike; it knows no tool.

use rmcp::model::{
    CacheScope, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, Tool,
};

/// The whole list of tools. It is for one caller and can change at any time, as a role can.
pub(super) fn listed(tools: Vec<Tool>) -> ListToolsResult {
    let mut list = ListToolsResult::with_all_items(tools);
    list.cache_scope = Some(CacheScope::Private);
    list.ttl_ms = Some(0);
    list
}

/// A call that failed, and why, for the model to read.
pub(super) fn failed(text: String) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(text)]).into()
}
