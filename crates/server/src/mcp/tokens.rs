//! The members' secrets: one a member and start, kept as a hash; it never says what a member may do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aion_core::id::{SlotId, TeamId};
use aion_runtime::{Connection, ConnectionToken, Connections};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::auth::{Fingerprint, hex, secret};

/// What a member's secret begins with, so that it can be recognised where it does not belong.
const PREFIX: &str = "aionm_";
/// Connections that one secret holds at a time.
pub(crate) const CONNECTIONS: usize = 8;
/// Calls that one secret has on their way at a time.
pub(crate) const CALLS: usize = 32;

/// All members' secrets of one daemon. They end with it.
pub(crate) struct MemberTokens {
    port: u16,
    /// What the check of each secret is made from.
    root: String,
    members: Mutex<BTreeMap<Fingerprint, Arc<Member>>>,
    /// When a member used its secret last.
    used: Mutex<Instant>,
}

impl fmt::Debug for MemberTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberTokens").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Who a secret stands for.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) team: TeamId,
    pub(crate) slot: SlotId,
    /// Which start of the member; another one has another secret.
    pub(crate) generation: u32,
    /// A name for the secret, for the record.
    pub(crate) credential: String,
    /// Cancelled when the secret ends.
    pub(crate) ended: CancellationToken,
    /// Whether its tools have been there.
    ready: watch::Sender<bool>,
    connections: Arc<Semaphore>,
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) requests: Arc<Semaphore>,
}

impl Member {
    /// A place for one more connection, as long as the permit lives.
    pub(crate) fn connect(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// How many connections it holds.
    fn connections(&self) -> usize {
        CONNECTIONS - self.connections.available_permits()
    }

    /// Its tools are there.
    pub(crate) fn is_ready(&self) {
        self.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
    }
}

/// A secret that was just drawn, with how its member is doing.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) token: ConnectionToken,
    pub(crate) port: u16,
    ready: watch::Receiver<bool>,
}

/// What is known of a member's secret; never the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether its tools have been there.
    pub(crate) ready: bool,
    /// How many connections it holds.
    pub(crate) connections: usize,
}

impl MemberTokens {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, root: secret(), members: Mutex::default(), used: Mutex::new(Instant::now()) }
    }

    /// The port that members connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Draws a member's secret. The member's earlier ones end. None where a later start of the member
    /// has one already.
    pub(crate) fn draw(&self, team: &TeamId, slot: SlotId, generation: u32) -> Option<Issued> {
        let drawn = format!("{PREFIX}{}", secret());
        let token = format!("{drawn}.{}", self.check(&drawn));
        let fingerprint = Fingerprint::of(&drawn);
        let (ready, seen) = watch::channel(false);
        let member = Member {
            team: team.clone(),
            slot,
            generation,
            credential: format!("member:{}", fingerprint.short()),
            ended: CancellationToken::new(),
            ready,
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            calls: Arc::new(Semaphore::new(CALLS)),
            requests: Arc::new(Semaphore::new(CALLS)),
        };
        let mut members = self.lock();
        let of_slot = |member: &Member| member.team == *team && member.slot == slot;
        if members.values().any(|member| of_slot(member) && member.generation > generation) {
            return None;
        }
        tracing::info!(%team, %slot, generation, credential = member.credential, "a credential was made");
        end(&mut members, of_slot);
        members.insert(fingerprint, Arc::new(member));
        Some(Issued { token: ConnectionToken::new(token), port: self.port, ready: seen })
    }

    /// What a start is given that is over already: it stands for nobody.
    fn void(&self) -> Issued {
        let (_, ready) = watch::channel(false);
        Issued { token: ConnectionToken::new(format!("{PREFIX}over")), port: self.port, ready }
    }

    /// Whom a secret stands for. The part after the dot is for the client alone, which knows by it
    /// that it reached this daemon: it gives no authority, and may be missing.
    pub(crate) fn member(&self, token: &str) -> Option<Arc<Member>> {
        let drawn = token.split_once('.').map_or(token, |(drawn, _)| drawn);
        let member = self.lock().get(&Fingerprint::of(drawn)).cloned()?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(member)
    }

    /// Whether any member holds a connection.
    pub(crate) fn are_connected(&self) -> bool {
        self.lock().values().any(|member| member.connections() > 0)
    }

    /// How long no member has used its secret.
    pub(crate) fn silent_for(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// What proves to the holder of a secret that this is the daemon that drew it.
    pub(crate) fn proof(&self, token: &str, nonce: &str) -> String {
        let drawn = token.split_once('.').map_or(token, |(drawn, _)| drawn);
        proof(&self.check(drawn), nonce)
    }

    /// Ends every secret of a member's place. Says whether there was one.
    pub(crate) fn end_slot(&self, team: &TeamId, slot: SlotId) -> bool {
        end(&mut self.lock(), |member| member.team == *team && member.slot == slot)
    }

    /// What is known of the secret of a member's place, where it has one.
    pub(crate) fn standing(&self, team: &TeamId, slot: SlotId) -> Option<Standing> {
        let members = self.lock();
        let member = members.values().find(|m| m.team == *team && m.slot == slot)?;
        let ready = *member.ready.borrow();
        Some(Standing { ready, connections: member.connections() })
    }

    /// A secret of its own for each drawn one: who only has the drawn part cannot make it.
    fn check(&self, drawn: &str) -> String {
        hex(&Sha256::digest(format!("{}\n{drawn}", self.root).as_bytes()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, Arc<Member>>> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections for MemberTokens {
    fn issue(&self, team: &TeamId, slot: SlotId, generation: u32) -> Connection {
        let issued = self.draw(team, slot, generation).unwrap_or_else(|| self.void());
        Connection::new(issued.port, slot, issued.token, issued.ready)
    }

    fn revoke(&self, team: &TeamId, slot: SlotId, generation: u32) {
        end(&mut self.lock(), |member| {
            member.team == *team && member.slot == slot && member.generation <= generation
        });
    }
}

/// Ends the secrets that are meant, and what is connected by them. Says whether there were any.
fn end(members: &mut BTreeMap<Fingerprint, Arc<Member>>, meant: impl Fn(&Member) -> bool) -> bool {
    let before = members.len();
    members.retain(|_, member| {
        let ends = meant(member);
        if ends {
            let Member { team, slot, credential, .. } = &**member;
            tracing::info!(%team, %slot, credential, "a credential has ended");
            member.ended.cancel();
        }
        !ends
    });
    members.len() < before
}

/// The daemon's answer to a client's nonce. Both are of one length, so that neither can be shifted
/// into the other.
fn proof(check: &str, nonce: &str) -> String {
    hex(&Sha256::digest(format!("aion mcp\n{check}\n{nonce}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team() -> TeamId {
        TeamId::new("harbour").unwrap()
    }

    #[test]
    fn a_secret_stands_for_one_start_of_one_member_and_can_be_ended() {
        let tokens = MemberTokens::new(7);
        let first = tokens.draw(&team(), SlotId(1), 1).unwrap();
        let member = tokens.member(first.token.reveal()).unwrap();
        assert_eq!((member.slot, member.generation), (SlotId(1), 1));
        let other = tokens.draw(&team(), SlotId(2), 1).unwrap();
        let second = tokens.draw(&team(), SlotId(1), 1).unwrap();
        assert!(member.ended.is_cancelled(), "a new secret ends the one before it");
        assert!(tokens.member(first.token.reveal()).is_none());
        assert!(tokens.member(second.token.reveal()).is_some());
        tokens.revoke(&team(), SlotId(1), 0);
        assert!(tokens.member(second.token.reveal()).is_some(), "that start is over already");
        tokens.revoke(&team(), SlotId(1), 1);
        assert!(tokens.member(second.token.reveal()).is_none());
        assert!(tokens.member(other.token.reveal()).is_some());
        assert_eq!(tokens.standing(&team(), SlotId(1)), None);
        assert!(!format!("{other:?} {tokens:?}").contains(PREFIX));
    }

    #[test]
    fn an_earlier_start_takes_no_secret_from_a_later_one() {
        let tokens = MemberTokens::new(7);
        let second = tokens.draw(&team(), SlotId(1), 2).unwrap();
        assert!(tokens.draw(&team(), SlotId(1), 1).is_none());
        assert!(tokens.member(second.token.reveal()).is_some());
        assert!(tokens.member(tokens.void().token.reveal()).is_none());
    }

    #[test]
    fn only_who_drew_a_secret_can_prove_that() {
        let tokens = MemberTokens::new(7);
        let issued = tokens.draw(&team(), SlotId(1), 1).unwrap();
        let (drawn, check) = issued.token.reveal().split_once('.').unwrap();
        let nonce = "0".repeat(64);
        assert_eq!(tokens.proof(drawn, &nonce), proof(check, &nonce));
        assert_ne!(MemberTokens::new(7).proof(drawn, &nonce), proof(check, &nonce));
        assert_ne!(tokens.proof(drawn, &"1".repeat(64)), proof(check, &nonce));
    }
}
