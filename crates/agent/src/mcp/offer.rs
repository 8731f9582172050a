//! What a server offers and answers, made fit for a model; nothing of it is believed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aion_core::message::shorten;
use aion_core::prompt::tool_output;
use aion_core::transcript::Image;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, JsonObject, PaginatedRequestParams,
    ResourceContents, Tool,
};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;

use super::config::ServerName;
use crate::host::{ToolOutput, ToolSpec};
use crate::tools::shown_image;

/// The most tools of one server.
const TOOLS: usize = 64;
/// The most pages of a list.
const PAGES: usize = 16;
/// The longest name of a tool that every model's service takes.
const NAME_BYTES: usize = 64;
/// Bytes of a tool's description that are shown.
const DESCRIPTION_BYTES: usize = 2 * 1024;
/// The largest schema of a tool's input; a tool with a larger one is left out.
const SCHEMA_BYTES: usize = 16 * 1024;
/// Bytes of text in one answer.
const ANSWER_BYTES: usize = 100 * 1024;
/// Images in one answer.
const IMAGES: usize = 4;

/// A tool of a server.
#[derive(Debug)]
pub(super) struct Offered {
    /// Its name there.
    name: String,
    /// The tool as a model sees it.
    pub(super) spec: Arc<ToolSpec>,
}

/// Asks a server what it offers.
pub(super) async fn list(
    server: &ServerName,
    peer: &Peer<RoleClient>,
) -> Result<Arc<[Arc<Offered>]>, String> {
    let mut offered = Vec::new();
    let mut taken = BTreeSet::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(page)).await.map_err(|error| error.to_string())?;
        for tool in page.tools {
            let Some(one) = fit(server, tool) else { continue };
            if offered.len() < TOOLS && taken.insert(one.spec.name.clone()) {
                offered.push(Arc::new(one));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(offered.into())
}

/// A tool as a model may see it.
fn fit(server: &ServerName, tool: Tool) -> Option<Offered> {
    let mut schema = Value::Object(tool.input_schema.as_ref().clone());
    schema["type"] = "object".into();
    if schema.to_string().len() > SCHEMA_BYTES {
        return None;
    }
    let description = tool.description.unwrap_or_default();
    let description = shorten(&tool_output(description.trim()), DESCRIPTION_BYTES);
    let spec = ToolSpec {
        name: fit_name(server, &tool.name),
        description: format!("(MCP server {server}) {description}"),
        input_schema: schema,
    };
    Some(Offered { name: tool.name.into_owned(), spec: Arc::new(spec) })
}

/// A name that every model's service takes, and always the same.
fn fit_name(server: &ServerName, tool: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let own: String = tool.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let name = format!("mcp__{server}__{own}");
    if name.len() <= NAME_BYTES && own == tool && !own.is_empty() {
        return name;
    }
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    let mark = format!("_{:08x}", hasher.finish() & 0xffff_ffff);
    let end = name.len().min(NAME_BYTES - mark.len());
    format!("{}{mark}", &name[..end])
}

/// A call that is ready.
#[derive(Debug)]
pub(crate) struct Call {
    server: ServerName,
    tool: String,
    input: JsonObject,
}

impl Call {
    /// A call, if its input is one. A tool that is not offered at present may be again.
    pub(super) fn new(
        server: ServerName,
        tool: &str,
        offered: Option<Arc<Offered>>,
        input: &Value,
    ) -> Result<Self, String> {
        let Value::Object(input) = input else {
            let fields = offered.map(|one| one.spec.fields()).unwrap_or_default();
            return Err(format!("{tool}: the input is an object; {fields}."));
        };
        Ok(Self { server, tool: tool.to_owned(), input: input.clone() })
    }

    pub(super) fn server(&self) -> &ServerName {
        &self.server
    }

    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    /// What it would do, in one line.
    pub(crate) fn description(&self) -> String {
        let input = Value::Object(self.input.clone()).to_string();
        let own = self.tool.rsplit_once("__").map_or(self.tool.as_str(), |(_, own)| own);
        format!("Call {own} of the MCP server {}: {}", self.server, shorten(&input, 200))
    }

    pub(super) async fn run(
        self,
        offered: &Offered,
        peer: &Peer<RoleClient>,
    ) -> Result<ToolOutput, String> {
        let mut params = CallToolRequestParams::new(Cow::Owned(offered.name.clone()));
        params.arguments = Some(self.input);
        match peer.call_tool(params).await {
            Ok(result) => Ok(answer(result)),
            Err(ServiceError::McpError(error)) => {
                Ok(ToolOutput::failed(shorten(&error.message, ANSWER_BYTES)))
            }
            Err(error) => Err(format!("{error}. The call may have done its work")),
        }
    }
}

/// What a server answered, as a model is shown it.
fn answer(result: CallToolResult) -> ToolOutput {
    let (mut text, mut images) = (String::new(), Vec::new());
    let mut add = |more: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(more);
    };
    let blocks = result.content.len();
    for block in result.content {
        match block {
            ContentBlock::Text(block) => add(&block.text),
            ContentBlock::Image(block) => match image(&block.data) {
                Ok((what, image)) if images.len() < IMAGES => {
                    add(&what);
                    images.push(image);
                }
                Ok(_) => add("[an image, left out: there are too many]"),
                Err(why) => add(&format!("[an image, left out: {why}]")),
            },
            ContentBlock::Resource(block) => match block.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    add(&format!("[{uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, blob, .. } => {
                    add(&format!("[{uri}: {} bytes, left out]", blob.len() / 4 * 3));
                }
                _ => add("[a resource of a new kind, left out]"),
            },
            ContentBlock::ResourceLink(link) => add(&format!("[{}: {}]", link.name, link.uri)),
            ContentBlock::Audio(_) => add("[sound, left out]"),
            _ => add("[something of a new kind, left out]"),
        }
    }
    if blocks == 0
        && let Some(value) = result.structured_content
    {
        text = value.to_string();
    }
    let bytes = text.len();
    if bytes > ANSWER_BYTES {
        text.truncate(text.floor_char_boundary(ANSWER_BYTES));
        let missing = bytes - text.len();
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[... {missing} bytes left out ...]");
    }
    if text.is_empty() && images.is_empty() {
        "(no output)".clone_into(&mut text);
    }
    let output = match result.is_error {
        Some(true) => ToolOutput::failed(text),
        Some(false) | None => ToolOutput::changed(text),
    };
    ToolOutput { images, ..output }
}

fn image(data: &str) -> Result<(String, Image), String> {
    let bytes = BASE64_STANDARD.decode(data).map_err(|error| error.to_string())?;
    shown_image(&bytes, "The answer")
}
