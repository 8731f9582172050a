//! `aion open`: a link that signs a browser in once, printed and opened; it speaks to no page.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
    let opened = !args.print && client.local_dir().is_some_and(|dir| browse(dir, &link.url));
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
/// where there is a desktop. The link signs in whoever has it, and everybody on the machine may read
/// the words that a program is started with: the browser gets the path of a page of ours instead.
fn browse(dir: &Path, url: &str) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let browser = if let Some(browser) = std::env::var_os("BROWSER").filter(|b| !b.is_empty()) {
        Command::new(browser)
    } else if cfg!(target_os = "macos") {
        Command::new("open")
    } else if set("DISPLAY") || set("WAYLAND_DISPLAY") {
        Command::new("xdg-open")
    } else {
        return false;
    };
    going_on(dir, url).is_ok_and(|page| start(browser, &page))
}

/// Writes the page that goes on to a link. Only its owner reads it, and the next one takes its place.
fn going_on(dir: &Path, url: &str) -> io::Result<PathBuf> {
    let page = dir.join("open.html");
    let mut file =
        tempfile::Builder::new().permissions(Permissions::from_mode(0o600)).tempfile_in(dir)?;
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>aion</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">Sign in to aion</a>"
    )?;
    file.persist(&page)?;
    Ok(page)
}

fn start(mut command: Command, page: &Path) -> bool {
    command
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
