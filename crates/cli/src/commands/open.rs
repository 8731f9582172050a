//! `aion open`: a link that signs a browser in once, printed and opened; it speaks to no page.

use std::process::{Command, Stdio};

use aion_api::{Exit, LoginLinkResponse};
use serde_json::json;

use crate::args::Open;
use crate::client::{connect, find_team};
use crate::exit::Outcome;
use crate::output;

pub(super) async fn run(args: Open, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let team = match &args.team {
        Some(wanted) => Some(find_team(&client, Some(wanted)).await?),
        None => None,
    };
    let link: LoginLinkResponse = client.tell("/api/login-links").await?;
    let page = team.map(|team| format!("{}/team/{}", client.url(), team.id));
    let opened = !args.print && client.local_dir().is_some() && browse(&link.url);
    if json {
        output::json(&json!({
            "login_url": link.url, "page": page, "opened": opened, "expires_in_s": link.expires_in_s,
        }))?;
        return Ok(Exit::Success);
    }
    output::line(&link.url)?;
    if let Some(page) = page {
        output::line(&format!("then: {page}"))?;
    }
    let minutes = link.expires_in_s / 60;
    output::line(&if opened {
        format!("It is opened in your browser. The link works once, for {minutes} minutes.")
    } else {
        format!("Open it in a browser. It works once, for {minutes} minutes.")
    })?;
    Ok(Exit::Success)
}

/// Hands a link to the browser of the person: `$BROWSER`, else what the desktop opens links with,
/// where there is a desktop.
fn browse(url: &str) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(browser) = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty()) {
        return start(Command::new(browser), url);
    }
    if cfg!(target_os = "macos") {
        return start(Command::new("open"), url);
    }
    (set("DISPLAY") || set("WAYLAND_DISPLAY")) && start(Command::new("xdg-open"), url)
}

fn start(mut command: Command, url: &str) -> bool {
    command
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
