//! Keys that the person gave to `aion auth login`, in a file that only the person can read; never in
//! the settings.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aion_agent::models::{Secret, Service};
use aion_api::Exit;
use serde::{Deserialize, Serialize};

use crate::config::Paths;
use crate::exit::Failure;
use crate::replace::{Within, replace};

/// The keys that are kept.
#[derive(Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    keys: BTreeMap<Service, Secret>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
struct File(BTreeMap<String, Entry>);

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
}

impl Stored {
    /// Where they are kept: beside the person's own settings.
    pub(crate) fn path(settings: &Paths) -> PathBuf {
        settings.user.with_file_name("credentials.toml")
    }

    /// Those that are kept at present.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let keys = match fs::metadata(path) {
            Ok(meta) => {
                ours_alone(path, &meta)?;
                parse(path)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failure::io(format!("read {}", path.display()), &error)),
        };
        Ok(Self { path: path.to_owned(), keys })
    }

    /// The key of a service. Both ways of speaking to one service have one key.
    pub(crate) fn key(&self, service: Service) -> Option<&Secret> {
        self.keys.get(&owner(service))
    }

    /// Keeps a key; answers whether there was another.
    pub(crate) fn keep(&mut self, service: Service, key: Secret) -> Result<bool, Failure> {
        let before = self.keys.insert(owner(service), key);
        self.write()?;
        Ok(before.is_some())
    }

    /// Forgets a key; answers whether there was one.
    pub(crate) fn forget(&mut self, service: Service) -> Result<bool, Failure> {
        let was = self.keys.remove(&owner(service)).is_some();
        if was {
            self.write()?;
        }
        Ok(was)
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.path
    }

    fn write(&self) -> Result<(), Failure> {
        let fail =
            |error: std::io::Error| Failure::io(format!("write {}", self.path.display()), &error);
        let entry = |key: &Secret| Entry { key: key.expose().to_owned() };
        let file = self.keys.iter().map(|(service, key)| (service.name().to_owned(), entry(key)));
        let text = toml::to_string(&File(file.collect()))
            .map_err(|error| fail(std::io::Error::other(error.to_string())))?;
        let text = format!("# Keys of aion auth. They are yours alone: mode 600.\n{text}");
        let file = Within::Own.file(&self.path).map_err(fail)?;
        replace(&file, text.as_bytes(), 0o600).map_err(fail)
    }
}

/// Whose key a service takes.
fn owner(service: Service) -> Service {
    match service {
        Service::OpenAi | Service::OpenAiResponses => Service::OpenAi,
        Service::Anthropic | Service::Gemini | Service::Ollama | Service::Compatible => service,
    }
}

fn ours_alone(path: &Path, meta: &fs::Metadata) -> Result<(), Failure> {
    let mode = meta.permissions().mode() & 0o777;
    let ours = meta.uid() == nix::unistd::geteuid().as_raw();
    let open = mode & 0o077 != 0;
    if ours && !open {
        return Ok(());
    }
    let why = if ours { format!("open to others (mode {mode:o})") } else { "not yours".to_owned() };
    let message = format!("{} holds keys and is {why}", path.display());
    Err(Failure::new(Exit::Authentication, "auth.file_open", message).with_hint(format!(
        "chmod 600 {}; then change the keys that others may have read",
        path.display()
    )))
}

fn parse(path: &Path) -> Result<BTreeMap<Service, Secret>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::io(format!("read {}", path.display()), &error))?;
    // What is wrong may be a key: it is not repeated.
    let file: File = toml::from_str(&text).map_err(|_| {
        let message = format!("{} is not as aion auth writes it", path.display());
        Failure::new(Exit::Authentication, "auth.file_unreadable", message)
            .with_hint("move it away, and give the keys again: aion auth login PROVIDER")
    })?;
    let known =
        |(name, entry): (String, Entry)| Some((Service::from_name(&name)?, Secret::new(entry.key)));
    Ok(file.0.into_iter().filter_map(known).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_owner_alone_and_shown_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/credentials.toml");
        let mut stored = Stored::read(&path).unwrap();
        assert_eq!(stored.key(Service::OpenAi), None);
        assert!(!stored.keep(Service::OpenAiResponses, Secret::new("canary\"1")).unwrap());
        assert!(stored.keep(Service::OpenAi, Secret::new("canary\"2")).unwrap());
        assert!(!format!("{stored:?}").contains("canary"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut again = Stored::read(&path).unwrap();
        assert_eq!(again.key(Service::OpenAiResponses).unwrap().expose(), "canary\"2");
        assert!(again.forget(Service::OpenAi).unwrap() && !again.forget(Service::OpenAi).unwrap());
        assert_eq!(Stored::read(&path).unwrap().key(Service::OpenAi), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Stored::read(&path).unwrap_err().code(), "auth.file_open");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "canary = [").unwrap();
        let refused = Stored::read(&path).unwrap_err();
        assert!(!refused.message().contains("canary"), "{refused:?}");
    }
}
