//! Where log lines go: to standard error for who asks, to a file of limited size for a daemon that
//! nobody watches; never to standard output.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::{Command, LogFormat};
use crate::client::log_file;
use crate::paths::data_dir;

/// What a daemon that nobody watches writes down. What the library for MCP says of each client is
/// nothing to keep.
const DAEMON: &str = "info,rmcp=warn";
/// A log is begun anew beyond this size; the one before is kept as `daemon.log.1`.
const LIMIT: u64 = 4 * 1024 * 1024;

/// With `AION_LOG`, for example `AION_LOG=debug`, or a format, what goes on inside is written to
/// standard error. A daemon that was started by another command writes to its file in any case.
pub(crate) fn begin(command: &Command, format: Option<LogFormat>) {
    let asked = env::var("AION_LOG").ok().filter(|filter| !filter.is_empty());
    let json = format == Some(LogFormat::Json);
    if let Command::Serve(serve) = command
        && serve.on_demand
        && let Ok(dir) = data_dir(serve.data.data_dir.as_deref())
    {
        write(asked.as_deref(), json, Limited::new(&log_file(&dir), LIMIT));
    } else if asked.is_some() || format.is_some() {
        write(asked.as_deref(), json, io::stderr);
    }
}

fn write(
    filter: Option<&str>,
    json: bool,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) {
    let filter = EnvFilter::new(filter.unwrap_or(DAEMON));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    let log = log.with_writer(writer);
    if json {
        log.json().flatten_event(true).with_current_span(false).init();
    } else {
        log.init();
    }
}

/// A file that never grows far beyond its limit.
struct Limited {
    path: PathBuf,
    limit: u64,
    /// None until the first line, and where it cannot be opened.
    open: Mutex<Option<(File, u64)>>,
}

impl Limited {
    fn new(path: &Path, limit: u64) -> Self {
        Self { path: path.to_owned(), limit, open: Mutex::new(None) }
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|(_, size)| *size > self.limit) {
            *open = None;
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        if open.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            let size = file.metadata()?.len();
            *open = Some((file, size));
        }
        let Some((file, size)) = &mut *open else { return Ok(()) };
        file.write_all(line)?;
        *size += line.len() as u64;
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Limited {
    type Writer = Line<'a>;
    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// A line on its way to the file.
struct Line<'a>(&'a Limited);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_begun_anew_beyond_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = log_file(dir.path());
        let log = Limited::new(&path, 100);
        for _ in 0..100 {
            log.make_writer().write_all(b"0123456789\n").unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= 111);
        assert!(fs::metadata(path.with_extension("log.1")).unwrap().len() <= 111);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
