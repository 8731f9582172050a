//! Who somebody is: the token of the command line, one-time login codes, and browser sessions; it
//! never says what somebody may do.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::watch;

/// How long a login code can be used.
pub(crate) const CODE_LIFE: Duration = Duration::from_mins(5);
/// How long a session lasts without being used.
const SESSION_LIFE: Duration = Duration::from_hours(24 * 7);
/// Login codes at a time; the oldest gives way.
const CODES: usize = 16;
/// Sessions at a time; the one that was used longest ago gives way.
const SESSIONS: usize = 64;
/// What a token of ours begins with, so that it can be recognised where it does not belong.
const PREFIX: &str = "aion_";

/// The secret with which the command line reaches the daemon. It has no way out but its file.
#[derive(Clone)]
pub struct AccessToken(String);

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read or written.
    #[error("use the token file {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// Others can read the file: its token is no secret any more.
    #[error(
        "use the token file {path}: others can read it (mode {mode:o}); remove it, and a new one is made"
    )]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file holds no token.
    #[error("use the token file {path}: it holds no token; remove it, and a new one is made")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl AccessToken {
    /// Reads the token of a file that is its owner's alone, or makes both.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let io = |source| TokenError::Io { path: path.to_owned(), source };
        let token = Self(format!("{PREFIX}{}", secret()));
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match made {
            Ok(mut file) => {
                file.write_all(token.0.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
                Ok(token)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(path),
            Err(error) => Err(io(error)),
        }
    }

    /// Reads the token of a file that is its owner's alone.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let io = |source| TokenError::Io { path: path.to_owned(), source };
        let mode = fs::metadata(path).map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Readable { path: path.to_owned(), mode });
        }
        let text = fs::read_to_string(path).map_err(io)?;
        let text = text.trim_end();
        let drawn = text.strip_prefix(PREFIX).unwrap_or_default();
        if drawn.len() != 64 || !drawn.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(TokenError::Damaged { path: path.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }

    /// The value of an `Authorization` header.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

/// Who is calling, known from the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The user.
    pub(crate) user: String,
    /// A name for the credential, for the record; never the credential itself.
    pub(crate) credential: String,
    /// How it came.
    pub(crate) via: Via,
}

/// How a credential came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// In an `Authorization` header: nothing that a browser sends by itself.
    Bearer,
    /// In a cookie, which a browser sends by itself: changes need its CSRF token too.
    Session {
        /// The session.
        id: Fingerprint,
    },
}

/// A secret that is kept only as its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Takes the same time whatever is in it.
    fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    pub(crate) fn short(&self) -> String {
        hex(&self.0[..4])
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// All credentials of one daemon. Sessions end with the daemon.
#[derive(Debug)]
pub(crate) struct Access {
    user: String,
    token: Fingerprint,
    state: Mutex<State>,
    /// How many sessions have ended, for those who wait for that.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    codes: Vec<(Fingerprint, Instant)>,
    sessions: BTreeMap<Fingerprint, Session>,
}

#[derive(Debug)]
struct Session {
    csrf: String,
    used: Instant,
}

/// A session that just began.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The value of its cookie.
    pub(crate) cookie: String,
    /// Its CSRF token.
    pub(crate) csrf: String,
}

impl Access {
    pub(crate) fn new(user: String, token: &AccessToken) -> Self {
        Self {
            user,
            token: Fingerprint::of(&token.0),
            state: Mutex::default(),
            ended: watch::Sender::new(0),
        }
    }

    /// The user whose daemon this is.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Draws a code that begins one session.
    pub(crate) fn login_code(&self) -> String {
        let code = secret();
        let mut state = self.lock();
        if state.codes.len() >= CODES {
            state.codes.remove(0);
        }
        state.codes.push((Fingerprint::of(&code), Instant::now() + CODE_LIFE));
        code
    }

    /// Begins a session by a code, which is used up by that.
    pub(crate) fn login(&self, code: &str) -> Option<Begun> {
        let given = Fingerprint::of(code);
        let now = Instant::now();
        let mut state = self.lock();
        state.codes.retain(|(_, until)| *until > now);
        // All are compared, so that the time does not tell which one was near.
        let found = state.codes.iter().enumerate().fold(None, |found, (index, (code, _))| {
            if code.is(&given) { Some(index) } else { found }
        })?;
        state.codes.remove(found);
        let begun = Begun { cookie: secret(), csrf: secret() };
        if state.sessions.len() >= SESSIONS {
            let oldest = state.sessions.iter().min_by_key(|(_, s)| s.used).map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                state.sessions.remove(&oldest);
                self.ended.send_modify(|ended| *ended += 1);
            }
        }
        let session = Session { csrf: begun.csrf.clone(), used: now };
        state.sessions.insert(Fingerprint::of(&begun.cookie), session);
        Some(begun)
    }

    /// Who a bearer token belongs to.
    pub(crate) fn bearer(&self, token: &str) -> Option<Principal> {
        self.token.is(&Fingerprint::of(token)).then(|| Principal {
            user: self.user.clone(),
            credential: format!("token:{}", self.token.short()),
            via: Via::Bearer,
        })
    }

    /// Who a session's cookie belongs to.
    pub(crate) fn session(&self, cookie: &str) -> Option<Principal> {
        let id = Fingerprint::of(cookie);
        let now = Instant::now();
        let mut state = self.lock();
        state.sessions.retain(|_, session| now.duration_since(session.used) < SESSION_LIFE);
        let session = state.sessions.get_mut(&id)?;
        session.used = now;
        Some(Principal {
            user: self.user.clone(),
            credential: format!("session:{}", id.short()),
            via: Via::Session { id },
        })
    }

    /// The CSRF token of a session that is still there.
    pub(crate) fn csrf(&self, id: &Fingerprint) -> Option<String> {
        self.lock().sessions.get(id).map(|session| session.csrf.clone())
    }

    /// Whether a CSRF token is the session's.
    pub(crate) fn is_csrf(&self, id: &Fingerprint, given: &str) -> bool {
        self.csrf(id).is_some_and(|expected| expected.as_bytes().ct_eq(given.as_bytes()).into())
    }

    /// Ends a session.
    pub(crate) fn logout(&self, id: &Fingerprint) {
        self.lock().sessions.remove(id);
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// Changes whenever a session has ended.
    pub(crate) fn ended_sessions(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 256 bits that nobody can guess, in hexadecimal digits.
#[expect(clippy::expect_used, reason = "a system without randomness cannot keep secrets")]
pub(crate) fn secret() -> String {
    let mut bytes = [0_u8; 32];
    // Going on without the system's generator would make every credential guessable, so this is
    // the one right moment to stop.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex(&bytes)
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_in_a_file_of_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let first = AccessToken::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(AccessToken::open(&path).unwrap().0, first.0);
        assert_eq!(format!("{first:?}"), "AccessToken");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(AccessToken::open(&path), Err(TokenError::Readable { mode: 0o640, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "aion_short").unwrap();
        assert!(matches!(AccessToken::open(&path), Err(TokenError::Damaged { .. })));
    }

    #[test]
    fn a_code_begins_one_session_and_a_session_has_its_own_csrf_token() {
        let dir = tempfile::tempdir().unwrap();
        let token = AccessToken::open(&dir.path().join("token")).unwrap();
        let access = Access::new("ada".to_owned(), &token);
        assert!(access.bearer(&token.0).is_some());
        assert!(access.bearer("aion_").is_none());
        let code = access.login_code();
        let begun = access.login(&code).unwrap();
        assert!(access.login(&code).is_none());
        let principal = access.session(&begun.cookie).unwrap();
        let Via::Session { id } = principal.via else { panic!("a session") };
        assert!(access.is_csrf(&id, &begun.csrf));
        assert!(!access.is_csrf(&id, ""));
        access.logout(&id);
        assert!(access.session(&begun.cookie).is_none());
        assert!(!access.is_csrf(&id, &begun.csrf));
    }

    #[test]
    fn old_codes_and_sessions_give_way() {
        let dir = tempfile::tempdir().unwrap();
        let token = AccessToken::open(&dir.path().join("token")).unwrap();
        let access = Access::new("ada".to_owned(), &token);
        let first = access.login_code();
        for _ in 0..CODES {
            access.login_code();
        }
        assert!(access.login(&first).is_none());
        for _ in 0..=SESSIONS {
            access.login(&access.login_code()).unwrap();
        }
        assert_eq!(access.lock().sessions.len(), SESSIONS);
    }
}
