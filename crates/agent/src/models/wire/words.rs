//! What the services' formats share: ids, signatures, inputs of calls; never a whole request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use aion_core::text::is_unseen;
use aion_core::transcript::Image;
use aion_core::turn::CallId;
use serde_json::Value;

use crate::provider::{ModelEvent, ProviderError, ToolResult};

use super::{Out, broken};

/// The longest pause that is believed.
pub(in crate::models) const LONGEST: Duration = Duration::from_hours(24);

/// The most bytes of a service's own words that are shown.
const SHOWN: usize = 300;

/// The longest id of a call that every service takes.
const ID: usize = 40;

/// The longest name of a tool that every service takes.
const TOOL: usize = 64;

/// A call's id as every service takes it. Ids from elsewhere become others, always the same.
pub(in crate::models) fn id(call: &CallId) -> String {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !call.is_empty() && call.len() <= ID && call.bytes().all(known) {
        return call.clone();
    }
    let mut hasher = DefaultHasher::new();
    call.hash(&mut hasher);
    format!("call_{:016x}", hasher.finish())
}

/// A tool's name as every service takes it. A model may have called what is none; the conversation
/// with it has to be sent all the same.
pub(super) fn tool(name: &str) -> String {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(TOOL).map(|c| if known(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Results in the order of their calls: some services pair them by nothing else.
pub(super) fn in_order<'a>(results: &'a [ToolResult], calls: &[&CallId]) -> Vec<&'a ToolResult> {
    let mut ordered: Vec<&ToolResult> = results.iter().collect();
    ordered.sort_by_key(|result| calls.iter().position(|call| **call == result.call));
    ordered
}

/// A signature as the transcript keeps it: with the name of what it is for, so that no other
/// service is ever sent it.
pub(super) fn sign(kind: &str, signature: &str) -> String {
    format!("{kind}:{signature}")
}

/// The signature, if it is of this kind.
pub(super) fn signed<'a>(kind: &str, signature: Option<&'a str>) -> Option<&'a str> {
    signature?.strip_prefix(kind)?.strip_prefix(':')
}

/// A result as services see it that have no field for failure.
pub(super) fn result(result: &ToolResult) -> String {
    if result.ok { result.text.clone() } else { format!("Failed: {}", result.text) }
}

/// The images of results, for services that take none in a result: what a person's message with
/// them says, and the images. None where there are none.
pub(super) fn images(results: &[ToolResult]) -> Option<(String, impl Iterator<Item = &Image>)> {
    let calls: Vec<String> =
        results.iter().flat_map(|result| result.images.iter().map(|_| id(&result.call))).collect();
    let text = format!("[What the tools showed, in order: images of {}]", calls.join(", "));
    (!calls.is_empty()).then(|| (text, results.iter().flat_map(|result| &result.images)))
}

/// An image as a URL that holds it.
pub(super) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data.as_str())
}

/// JSON of an answer.
pub(super) fn json(text: &str) -> Result<Value, ProviderError> {
    serde_json::from_str(text).map_err(|error| broken(format!("the answer is not JSON: {error}")))
}

/// The input of a call as it was written. None where it is no object.
pub(super) fn input(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// The text of a field, if it has some.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// A count.
pub(super) fn count(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64()
}

/// Says text, if it is some.
pub(super) fn say(out: &mut Out, said: Option<&str>) {
    out.extend(said.map(|said| ModelEvent::Text(said.to_owned())));
}

/// Says a thought without a signature, if it is some.
pub(super) fn think(out: &mut Out, thought: Option<&str>) {
    out.extend(thought.map(|text| ModelEvent::Thought { text: text.to_owned(), signature: None }));
}

/// A service's own words, cut and without anything that a terminal would obey.
pub(in crate::models) fn plain(text: &str) -> String {
    let mut shown = String::new();
    for character in text.trim().chars() {
        if shown.len() >= SHOWN {
            shown.push('…');
            break;
        }
        match character {
            '\n' | '\r' | '\t' | ' ' => {
                if !shown.ends_with(' ') {
                    shown.push(' ');
                }
            }
            other if other.is_control() || is_unseen(other) => {
                shown.extend(other.escape_unicode());
            }
            other => shown.push(other),
        }
    }
    shown
}

/// Whether a service says that a conversation is too long for its model.
pub(super) fn too_long(said: &str) -> bool {
    let said = said.to_lowercase();
    [
        "context_length_exceeded",
        "exceed_context_size",
        "prompt is too long",
        "exceed context limit",
        "maximum context length",
        "maximum prompt length",
        "maximum model length",
        "context length of only",
        "available context size",
        "exceeds the maximum number of tokens",
        "context window",
        "request_too_large",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Whether a refusal is one that only a person can end, though its status does not say so: a key
/// that is none, or money that is used up.
fn needs_a_person(about: &str) -> bool {
    ["API_KEY_INVALID", "insufficient_quota", "credit balance is too low"]
        .iter()
        .any(|words| about.contains(words))
}

/// What a status means, whether it is that of an answer or stands in one. `said` is what is told,
/// `about` everything that the service wrote.
pub(in crate::models) fn verdict(
    status: u16,
    retry_after: Option<Duration>,
    said: String,
    about: &str,
) -> ProviderError {
    match status {
        401..=403 => ProviderError::Login(said),
        400 | 429 if needs_a_person(about) => ProviderError::Login(said),
        429 => ProviderError::RateLimit { retry_after },
        413 => ProviderError::TooLong(said),
        400 | 422 | 500 if too_long(about) => ProviderError::TooLong(said),
        408 | 409 | 425 | 500..=599 => ProviderError::Unavailable { text: said, retry_after },
        _ => ProviderError::Fatal(said),
    }
}

/// The pause that an error itself asks for, as Google's do: `"retryDelay": "37s"` in its details.
pub(in crate::models) fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds.ceil()).ok().map(|wait| wait.min(LONGEST))
}

/// A name as one segment of a path.
pub(super) fn segment(name: &str) -> String {
    use std::fmt::Write as _;
    let mut segment = String::new();
    for byte in name.trim_start_matches("models/").bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            segment.push(char::from(byte));
        } else {
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_a_service_would_refuse_become_others() {
        assert_eq!(id(&"toolu_01-a".into()), "toolu_01-a");
        let other = id(&"a b".into());
        assert!(other.starts_with("call_") && other.len() <= ID);
        assert_eq!(other, id(&"a b".into()));
        assert_ne!(other, id(&"a  b".into()));
        assert_ne!(id(&"x".repeat(50)), id(&"x".repeat(51)));
    }

    #[test]
    fn a_tool_that_is_none_has_a_name_that_can_be_sent() {
        assert_eq!(tool("mcp__git-hub__Read_1"), "mcp__git-hub__Read_1");
        assert_eq!(tool("functions.Read file\u{1b}é"), "functions_Read_file__");
        assert_eq!(tool(&"x".repeat(100)).len(), TOOL);
        assert_eq!(tool(""), "unknown");
    }

    #[test]
    fn words_of_a_service_are_cut_and_harmless() {
        assert_eq!(plain(" a\n\n b\u{1b}[31m\u{202e} "), "a b\\u{1b}[31m\\u{202e}");
        assert!(plain(&"x".repeat(10_000)).len() < 310);
    }

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(segment("models/gemini-2.5-pro"), "gemini-2.5-pro");
        assert_eq!(segment("../x?y#z"), "..%2Fx%3Fy%23z");
    }
}
