//! `aion stop`: ends the daemon of this machine once its turns have ended; every team is kept.

use aion_api::Exit;
use serde_json::json;

use crate::args::Stop;
use crate::client::{Look, end, look, settle};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::paths::data_dir;
use crate::terminal::clean_line;

pub(super) async fn run(args: Stop, json: bool) -> Outcome {
    if args.data.data_dir.is_none()
        && let Some(url) = std::env::var_os("AION_URL").filter(|url| !url.is_empty())
    {
        let message = format!("AION_URL names the daemon at {}", url.display());
        return Err(Failure::usage(message).with_hint(
            "aion stop ends a daemon of this machine: say which with --data-dir, or unset AION_URL",
        ));
    }
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let Look::There(file) = look(&dir) else {
        if json {
            output::json(&json!({ "stopped": false, "data_dir": dir }))?;
        } else {
            output::line(&format!("no daemon serves {}", dir.display()))?;
        }
        return Ok(Exit::Success);
    };
    let say = |line: &str| if json { Ok(()) } else { output::line(line) };
    let paused = if args.now { Vec::new() } else { settle(&dir, &file, args.wait, say).await? };
    end(&file).await?;
    if json {
        let names: Vec<&str> = paused.iter().map(|team| team.name.as_str()).collect();
        output::json(&json!({ "stopped": true, "pid": file.pid, "paused": names }))?;
        return Ok(Exit::Success);
    }
    output::line(&format!("the daemon (process {}) has ended; the teams are kept", file.pid))?;
    for team in &paused {
        let (name, short) = (clean_line(&team.name, 60), team.id.chars().take(8));
        let short: String = short.collect();
        output::line(&format!("{name} was at work and is paused: aion team resume {short}"))?;
    }
    Ok(Exit::Success)
}
