//! `aion serve` as a child process in a home of its own, with the agents on its path; it is ended with
//! its owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::Ground;
use crate::recipe::{Place, Recipe};

/// How long the daemon may take to say where it serves, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A home with a data directory and a workspace.
pub(crate) struct Home {
    root: TempDir,
    aion: PathBuf,
    variables: Vec<(String, String)>,
}

/// A daemon that runs.
pub(crate) struct Daemon {
    child: Child,
    url: String,
    token: String,
    http: reqwest::Client,
}

impl Home {
    /// A home that is set up for some agents.
    pub(crate) fn new(ground: &Ground, model: &str, recipes: &[&Recipe]) -> Result<Self> {
        let mut root = tempfile::Builder::new().prefix("aion-agents-").tempdir()?;
        root.disable_cleanup(ground.keep);
        let home = root.path().join("home");
        for folder in ["home/.config/aion", "work", "tmp"] {
            fs::create_dir_all(root.path().join(folder))?;
        }
        let place = Place { model: model.to_owned(), home: home.clone() };
        let mut path = vec![ground.installed.join("node/bin")];
        let mut variables = Vec::new();
        let mut settings = String::new();
        for recipe in recipes {
            ensure!(recipe.is_installed(ground), "{} is not installed", recipe.name);
            path.push(recipe.bin(&ground.installed));
            variables.extend(
                (recipe.variables)(&place).into_iter().map(|(name, value)| (name.into(), value)),
            );
            settings += &(recipe.settings)(&place);
            for (name, text) in (recipe.files)(&place) {
                let file = home.join(name);
                fs::create_dir_all(file.parent().context("a file has a folder")?)?;
                fs::write(file, text)?;
            }
        }
        fs::write(home.join(".config/aion/config.toml"), settings)?;
        path.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
        let path = std::env::join_paths(path)?.into_string().ok().context("a path is text")?;
        for (name, value) in [
            ("PATH", path),
            ("HOME", home.display().to_string()),
            ("TMPDIR", root.path().join("tmp").display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("AION_AGENTS", "installed".to_owned()),
        ] {
            variables.push((name.to_owned(), value));
        }
        Ok(Self { root, aion: ground.aion.clone(), variables })
    }

    /// Adds to the person's settings.
    pub(crate) fn settings(&self, more: &str) -> Result<()> {
        let file = self.root.path().join("home/.config/aion/config.toml");
        let text = fs::read_to_string(&file)? + more;
        fs::write(file, text).context("write the settings")
    }

    /// The workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Where everything is.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Starts the daemon, with a scenario for its scripted agents.
    pub(crate) async fn serve(&self, scenario: &str) -> Result<Daemon> {
        let script = self.root.path().join("scenario.toml");
        fs::write(&script, scenario)?;
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.path().join("daemon.log"))?;
        let mut child = Command::new(&self.aion)
            .args(["serve", "--json", "--port", "0", "--script"])
            .arg(&script)
            .arg("--data-dir")
            .arg(self.root.path().join("data"))
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("start aion")?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.context("wait for aion")??;
        let line = line.context("aion ended before it served")?;
        let said: Value = serde_json::from_str(&line).context("aion says where it serves")?;
        let word = |name: &str| said[name].as_str().context("a word of the daemon is missing");
        let token = fs::read_to_string(word("token_file")?)?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE * 10).build()?;
        Ok(Daemon { url: word("url")?.to_owned(), token, child, http })
    }
}

impl Daemon {
    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Calls it; an answer of another kind than success is an error.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        let mut request =
            self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.with_context(|| path.to_owned())?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "{path} is answered with {status}: {text}");
        if text.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(&text)?) }
    }

    /// Asks.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None).await
    }

    /// Asks until an answer is what is waited for.
    pub(crate) async fn until<T>(
        &self,
        path: &str,
        what: &str,
        limit: Duration,
        found: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            let answer = self.get(path).await?;
            if let Some(found) = found(&answer) {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                bail!("{what} did not come within {} s; at the end: {answer}", limit.as_secs());
            }
            sleep(LOOK).await;
        }
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill the daemon")
    }

    /// Ends it as a person would.
    pub(crate) async fn end(mut self) -> Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let told = std::process::Command::new("kill")
            .arg("-TERM")
            .arg(pid.context("the daemon is gone already")?.to_string())
            .status()?;
        ensure!(told.success(), "the daemon could not be told to end");
        let status = timeout(PATIENCE, self.child.wait()).await.context("wait for its end")??;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}
