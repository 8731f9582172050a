//! What the daemon counts, as Prometheus reads it; it never holds a name, a path or a text.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aion_runtime::TeamRow;

/// Counts since the daemon began.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Answers by the first digit of their status, from 1xx on.
    answers: [AtomicU64; 5],
    sockets: AtomicI64,
    too_slow: AtomicU64,
    began: Instant,
    /// When the last answer was given, in milliseconds after the beginning.
    last: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            answers: Default::default(),
            sockets: AtomicI64::new(0),
            too_slow: AtomicU64::new(0),
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }
}

impl Counts {
    pub(crate) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        self.touch();
    }

    /// How long nobody has got an answer.
    pub(crate) fn silent_for(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(last)
    }

    fn touch(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    pub(crate) fn socket_opened(&self) {
        self.sockets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn socket_closed(&self) {
        self.sockets.fetch_sub(1, Ordering::Relaxed);
        self.touch();
    }

    pub(crate) fn sockets(&self) -> i64 {
        self.sockets.load(Ordering::Relaxed)
    }

    pub(crate) fn too_slow(&self) {
        self.too_slow.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it, with what the store says of the teams.
    pub(crate) fn text(&self, teams: &[TeamRow]) -> String {
        let mut out = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, i128)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        };
        let one = |value: i128| vec![(String::new(), value)];
        let version = env!("CARGO_PKG_VERSION");
        metric(
            "aion_build_info",
            "gauge",
            "The version that runs.",
            &[(format!("{{version=\"{version}\"}}"), 1)],
        );
        let answers: Vec<(String, i128)> = (1..=5)
            .zip(&self.answers)
            .map(|(class, count)| {
                (format!("{{class=\"{class}xx\"}}"), count.load(Ordering::Relaxed).into())
            })
            .collect();
        metric("aion_http_responses_total", "counter", "Answers over HTTP.", &answers);
        metric(
            "aion_websockets",
            "gauge",
            "WebSockets that are open.",
            &one(self.sockets().into()),
        );
        let slow = self.too_slow.load(Ordering::Relaxed);
        metric(
            "aion_websockets_too_slow_total",
            "counter",
            "WebSockets that were closed because their client read too slowly.",
            &one(slow.into()),
        );
        let sum = |of: &dyn Fn(&TeamRow) -> u32| -> i128 {
            teams.iter().filter(|team| !team.ended).map(|team| i128::from(of(team))).sum()
        };
        metric("aion_teams", "gauge", "Teams that have not ended.", &one(sum(&|_| 1)));
        metric("aion_members", "gauge", "Members of these teams.", &one(sum(&|t| t.members)));
        metric(
            "aion_messages_open",
            "gauge",
            "Messages that are not acknowledged.",
            &one(sum(&|t| t.messages_open)),
        );
        metric("aion_tasks_open", "gauge", "Open tasks.", &one(sum(&|t| t.tasks_open)));
        metric(
            "aion_requests_open",
            "gauge",
            "Requests that wait for a decision.",
            &one(sum(&|t| t.requests_open)),
        );
        out
    }
}
