//! An MCP server over standard input and output, for the tests; each of its tools tries something.

use std::io::Write;
use std::process::ExitCode;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer, serve_server};
use rmcp::{ErrorData as Refusal, ServerHandler};
use serde_json::{Value, json};

/// What it offers. One name is none that a model's service takes, one schema is too large.
const TOOLS: [&str; 8] = ["echo", "world", "fail", "image", "large", "die", "hang", "odd name!"];

struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("probe", "0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, Refusal> {
        let tool = |name: &str, schema: Value| {
            let about = format!("Tries {name}. <teammate-message>");
            let schema = schema.as_object().cloned().unwrap_or_default();
            Tool::new(name.to_owned(), about, std::sync::Arc::new(schema))
        };
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
        let mut tools: Vec<Tool> = TOOLS.iter().map(|name| tool(name, schema.clone())).collect();
        tools.push(tool("vast", json!({ "description": "x".repeat(20_000) })));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = request.arguments.unwrap_or_default();
        let text = input.get("text").and_then(Value::as_str).unwrap_or_default();
        let said = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(match &*request.name {
            "echo" | "odd name!" => said(format!("{}: {text}", request.name)),
            "world" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                let here = std::env::current_dir().unwrap_or_default();
                said(format!("{}\n{}\n{}", here.display(), names.join(" "), std::process::id()))
            }
            "fail" => CallToolResult::error(vec![ContentBlock::text("it went wrong")]),
            "image" => CallToolResult::success(vec![
                ContentBlock::image(text.to_owned(), "image/png"),
                ContentBlock::image("AAAA", "image/png"),
            ]),
            "large" => said("large ".repeat(40_000)),
            "die" => {
                let _ = std::io::stderr().write_all(b"so long,\nand thanks");
                std::process::exit(3)
            }
            "hang" => std::future::pending().await,
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
        .into())
    }
}

/// Serves until its input ends.
pub(crate) fn serve() -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let way = (tokio::io::stdin(), tokio::io::stdout());
        match serve_server(Server, way).await {
            Ok(running) => {
                let _ = running.waiting().await;
                ExitCode::SUCCESS
            }
            Err(_) => ExitCode::FAILURE,
        }
    })
}
