//! What its sessions were told, in files, so that another process can open them again.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Its sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    directory: Option<PathBuf>,
    /// What this process was told, by session.
    known: Vec<(String, Vec<String>)>,
}

impl Sessions {
    pub(crate) fn open() -> Self {
        let directory = std::env::var_os("FAKE_ACP_SESSIONS").map(PathBuf::from);
        Self { directory, known: Vec::new() }
    }

    /// Begins a session.
    pub(crate) fn begin(&mut self) -> String {
        let id = format!("session-{}-{}", std::process::id(), self.known.len() + 1);
        self.known.push((id.clone(), Vec::new()));
        self.keep(&id);
        id
    }

    /// Opens a session again; what it was told.
    pub(crate) fn again(&mut self, id: &str) -> Option<Vec<String>> {
        let told = fs::read(self.path(id)?).ok()?;
        let told: Vec<String> = serde_json::from_slice(&told).ok()?;
        self.known.push((id.to_owned(), told.clone()));
        Some(told)
    }

    /// A session was told something.
    pub(crate) fn tell(&mut self, id: &str, text: &str) {
        if let Some((_, told)) = self.known.iter_mut().find(|(known, _)| known == id) {
            told.push(text.to_owned());
        }
        self.keep(id);
    }

    /// All that a session was told.
    pub(crate) fn told(&self, id: &str) -> String {
        let found = self.known.iter().find(|(known, _)| known == id);
        found.map(|(_, told)| told.join("\n")).unwrap_or_default()
    }

    /// Whether this is the first time that it is asked to, of all its processes.
    pub(crate) fn stumbles(&self) -> bool {
        let mark = self.directory.as_ref().map(|directory| directory.join("stumbled"));
        mark.is_none_or(|mark| fs::File::create_new(mark).is_ok())
    }

    fn keep(&self, id: &str) {
        let found = self.known.iter().find(|(known, _)| known == id);
        if let (Some(path), Some((_, told))) = (self.path(id), found) {
            let told: Value = json!(told);
            // What is not kept cannot be opened again, which a test sees.
            let _ = fs::write(path, told.to_string());
        }
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{id}.json")))
    }
}
