//! What a refusal of a service means, and how long to wait; it waits for nothing itself.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::wire::{LONGEST, failure, plain, retry_delay, verdict};
use crate::provider::ProviderError;

/// How long the provider waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often a refused call is made again.
    pub attempts: u32,
    /// The wait before the first of them where the service does not say; each is twice the last.
    pub first_wait: Duration,
    /// The longest wait for one of them. Where the service asks for more, the turn waits instead.
    pub longest_wait: Duration,
    /// How long a service may send nothing: before its answer and within it.
    pub quiet: Duration,
    /// How long one answer may take.
    pub whole: Duration,
    /// How long a call waits for others of this process to end.
    pub queue: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 3,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(10),
            quiet: Duration::from_mins(5),
            whole: Duration::from_hours(1),
            queue: Duration::from_mins(10),
        }
    }
}

impl Patience {
    /// How long to wait before attempt `number` (from 0); none where the caller is to be told.
    pub(super) fn wait(&self, number: u32, error: &ProviderError) -> Option<Duration> {
        let asked = match error {
            ProviderError::RateLimit { retry_after }
            | ProviderError::Unavailable { retry_after, .. } => *retry_after,
            ProviderError::Login(_)
            | ProviderError::Broken(_)
            | ProviderError::TooLong(_)
            | ProviderError::Fatal(_) => return None,
        };
        if number >= self.attempts {
            return None;
        }
        // A service that asks for no pause at all is not called more often for it.
        let own = self.first_wait.saturating_mul(1 << number.min(10));
        let wait = asked.map_or(own, |asked| asked.max(own));
        (wait <= self.longest_wait).then_some(wait)
    }
}

/// What an answer of this status means.
pub(super) fn refusal(
    status: u16,
    retry_after: Option<Duration>,
    body: &str,
    key: Option<&str>,
) -> ProviderError {
    let parsed = parsed(body).unwrap_or_default();
    let said = format!("{status}: {}", hide(&words(&parsed, body), key));
    verdict(status, retry_after.or_else(|| retry_delay(&parsed["error"])), said, body)
}

/// Why a body that is no answer, though its status promised one, is none: as far as it can be told
/// from its beginning.
pub(super) fn no_answer(beginning: &str) -> Option<ProviderError> {
    if beginning.trim_start().starts_with('<') {
        let what = "there is a web page where the model's service should be: look at the base URL";
        return Some(ProviderError::Fatal(what.into()));
    }
    let parsed = parsed(beginning)?;
    Some(if parsed["error"].is_null() {
        ProviderError::Fatal("it does not answer piece by piece, as it was asked to".into())
    } else {
        failure(&parsed["error"])
    })
}

/// A body that is JSON; the first where it is a list.
fn parsed(body: &str) -> Option<Value> {
    let mut parsed = serde_json::from_str::<Value>(body).ok()?;
    Some(if parsed.is_array() { parsed[0].take() } else { parsed })
}

/// The service's words in an answer that is no success.
fn words(parsed: &Value, body: &str) -> String {
    let said = parsed["error"]["message"]
        .as_str()
        .or_else(|| parsed["error"].as_str())
        .or_else(|| parsed["message"].as_str());
    match said.unwrap_or(body) {
        said if said.trim().is_empty() => "the service says no more".to_owned(),
        said => said.to_owned(),
    }
}

/// The text as it may be shown: cut, harmless, and without the key, should a service repeat it.
pub(super) fn hide(text: &str, key: Option<&str>) -> String {
    match key.filter(|key| !key.is_empty()) {
        Some(key) => plain(&text.replace(key, "[key]")),
        None => plain(text),
    }
}

/// What `Retry-After` or `retry-after-ms` ask for.
pub(super) fn retry_after(
    seconds: Option<&str>,
    millis: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let span =
        |seconds: f64| Duration::try_from_secs_f64(seconds.clamp(0.0, LONGEST.as_secs_f64())).ok();
    if let Some(millis) = millis.and_then(number) {
        return span(millis / 1000.0);
    }
    let text = seconds?;
    if let Some(seconds) = number(text) {
        return span(seconds);
    }
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(http_date(text.trim())?);
    let wait = until.duration_since(now).unwrap_or_default();
    span(wait.as_secs_f64().ceil())
}

/// Seconds since 1970 of a date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next().filter(|name| name.len() == 3)?;
    let month = u64::try_from(MONTHS.find(name)? / 3 + 1).ok()?;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days in the civil calendar, with years that begin in March.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1;
    Some(days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_ask_for_a_pause_is_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |seconds, millis| retry_after(seconds, millis, now);
        assert_eq!(read(Some("7"), None), Some(Duration::from_secs(7)));
        assert_eq!(read(Some("0.5"), Some("1500")), Some(Duration::from_millis(1500)));
        let date = "Sun, 06 Nov 1994 08:49:47 GMT";
        assert_eq!(read(Some(date), None), Some(Duration::from_secs(10)));
        let past = "Sun, 06 Nov 1994 08:49:07 GMT";
        assert_eq!(read(Some(past), None), Some(Duration::ZERO));
        assert_eq!(read(Some("99999999999"), None), Some(Duration::from_hours(24)));
        assert_eq!(read(Some("soon"), None), None);
        assert_eq!(read(Some("NaN"), None), None);
        assert_eq!(read(None, None), None);
    }

    #[test]
    fn a_refusal_says_what_can_be_done_and_never_the_key() {
        let body = r#"{"error":{"message":"bad key sk-1\nfor you"}}"#;
        let refuse = |status| refusal(status, None, body, Some("sk-1"));
        assert_eq!(refuse(401), ProviderError::Login("401: bad key [key] for you".into()));
        assert_eq!(refuse(400), ProviderError::Fatal("400: bad key [key] for you".into()));
        assert_eq!(refuse(302), ProviderError::Fatal("302: bad key [key] for you".into()));
        assert_eq!(refuse(429), ProviderError::RateLimit { retry_after: None });
        assert!(matches!(refuse(529), ProviderError::Unavailable { .. }));
        let spent = r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#;
        assert_eq!(refusal(429, None, spent, None), ProviderError::Login("429: pay".into()));
    }

    #[test]
    fn short_pauses_are_waited_for_and_long_ones_are_not() {
        let patience = Patience::default();
        let asks =
            |seconds| ProviderError::RateLimit { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(patience.wait(0, &asks(3)), Some(Duration::from_secs(3)));
        assert_eq!(patience.wait(0, &asks(11)), None);
        assert_eq!(patience.wait(3, &asks(1)), None);
        let down = ProviderError::Unavailable { text: String::new(), retry_after: None };
        assert_eq!(patience.wait(2, &down), Some(Duration::from_secs(2)));
        assert_eq!(patience.wait(0, &ProviderError::Broken(String::new())), None);
    }
}
