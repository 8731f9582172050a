//! The user's own scope: teams come and go, and the requests of all teams, under one running
//! number; it keeps a short past and says so when that is not enough.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aion_api::UserFrame;
use aion_core::event::{Event, Recorded};
use aion_core::id::{Seq, TeamId};
use aion_runtime::{SubscriptionEnd, TeamHandle, TeamService};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::convert::{concerns_user, event_name};
use crate::spans::Spans;

/// Frames that are kept for those who come back.
const KEPT: usize = 4_096;

/// The wait before events are asked for again that could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// The scope. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    past: Mutex<Past>,
    last: watch::Sender<u64>,
    stop: CancellationToken,
    spans: Option<Spans>,
}

#[derive(Debug)]
struct Past {
    frames: VecDeque<Arc<UserFrame>>,
    /// The number of the frame before the first that is kept.
    before: u64,
    watched: BTreeSet<TeamId>,
}

/// What came after a point.
pub(crate) struct Since {
    pub(crate) frames: Vec<Arc<UserFrame>>,
    /// The point is not known any more.
    pub(crate) reset: bool,
    pub(crate) last: u64,
}

impl Feed {
    /// A scope whose numbers begin at `begin`: higher than all that an earlier daemon gave out.
    pub(crate) fn new(begin: u64, stop: CancellationToken, spans: Option<Spans>) -> Self {
        let past = Past { frames: VecDeque::new(), before: begin, watched: BTreeSet::new() };
        Self {
            inner: Arc::new(Inner {
                past: Mutex::new(past),
                last: watch::Sender::new(begin),
                stop,
                spans,
            }),
        }
    }

    /// Tells of a team from an event on.
    pub(crate) fn watch(&self, service: &TeamService, team: &TeamHandle, after: Seq) {
        if self.lock().watched.insert(team.team().clone()) {
            tokio::spawn(follow(self.clone(), service.clone(), team.clone(), after));
        }
    }

    /// A team was erased.
    pub(crate) fn erased(&self, team: &TeamId) {
        self.push("team.removed", team, Value::Null);
    }

    /// The number of the last frame, as it changes.
    pub(crate) fn last(&self) -> watch::Receiver<u64> {
        self.inner.last.subscribe()
    }

    /// What came after a point; without one, nothing but where the scope is.
    pub(crate) fn since(&self, after: Option<u64>) -> Since {
        let past = self.lock();
        let last = past.before + past.frames.len() as u64;
        match after {
            None => Since { frames: Vec::new(), reset: false, last },
            Some(after) if after < past.before || after > last => {
                Since { frames: Vec::new(), reset: true, last }
            }
            Some(after) => Since {
                frames: past.frames.iter().filter(|frame| frame.seq > after).cloned().collect(),
                reset: false,
                last,
            },
        }
    }

    fn push(&self, name: &str, team: &TeamId, data: Value) {
        let mut past = self.lock();
        let seq = past.before + past.frames.len() as u64 + 1;
        past.frames.push_back(Arc::new(UserFrame {
            name: name.to_owned(),
            scope: "user".to_owned(),
            team_id: team.to_string(),
            seq,
            data,
        }));
        if past.frames.len() > KEPT {
            past.frames.pop_front();
            past.before += 1;
        }
        drop(past);
        self.inner.last.send_replace(seq);
    }

    fn told(&self, team: &TeamId, recorded: &Recorded) {
        if concerns_user(&recorded.event) {
            let data = serde_json::to_value(&recorded.event).unwrap_or_default();
            self.push(event_name(&recorded.event), team, data);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        // Nothing in here can be half-done: a poisoned lock holds valid data.
        self.inner.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one team until it is closed.
async fn follow(feed: Feed, service: TeamService, team: TeamHandle, after: Seq) {
    let mut seen = after;
    let mut tracer = feed.inner.spans.as_ref().map(|spans| spans.of(&team));
    'again: loop {
        let mut events = team.subscribe(seen);
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = feed.inner.stop.cancelled() => return,
            };
            match next {
                Ok(Some(recorded)) => {
                    seen = recorded.seq;
                    feed.told(team.team(), &recorded);
                    if let Some(tracer) = &mut tracer {
                        tracer.take(&recorded, service.house().clock.wall_ms()).await;
                    }
                    if let Event::TeamLinked { team: made, .. } = &recorded.event
                        && let Ok(made) = service.open(made).await
                    {
                        feed.watch(&service, &made, Seq(0));
                    }
                }
                Err(SubscriptionEnd::TooSlow { .. }) => continue 'again,
                Err(SubscriptionEnd::Store(error)) => {
                    tracing::warn!(team = %team.team(), %error, "a team's events cannot be read");
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => continue 'again,
                        () = feed.inner.stop.cancelled() => return,
                    }
                }
                Ok(None) => {
                    feed.lock().watched.remove(team.team());
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_away_too_long_is_told_to_read_anew() {
        let feed = Feed::new(100, CancellationToken::new(), None);
        let team = TeamId::new("t").unwrap();
        for _ in 0..KEPT + 2 {
            feed.erased(&team);
        }
        let last = 100 + KEPT as u64 + 2;
        let check = |after, count, reset| {
            let since = feed.since(after);
            assert_eq!((since.frames.len(), since.reset, since.last), (count, reset, last));
        };
        check(None, 0, false);
        check(Some(100), 0, true);
        check(Some(102), KEPT, false);
        check(Some(last - 1), 1, false);
        check(Some(last), 0, false);
        check(Some(last + 1), 0, true);
    }
}
