//! The collector of spans that the environment names; where it names none, none is called.

use std::env;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use aion_server::SpanSink;
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::client::without_tls;
use crate::exit::Failure;

/// How long the collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A collector of OpenTelemetry, called by OTLP over HTTP in JSON.
pub(crate) struct Collector {
    url: String,
    client: reqwest::Client,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its headers and its URL may hold a secret.
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    /// By `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` and the usual path.
    /// The environment may be meant for other programs: what cannot be used is a warning.
    pub(crate) fn from_environment() -> Option<Self> {
        Self::from(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()))
            .unwrap_or_else(|failure| {
                tracing::warn!(reason = failure.message(), "no collector is told of spans");
                None
            })
    }

    fn from(var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Failure> {
        let whole = var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let usual = || {
            let base = var("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        };
        let Some(url) = whole.or_else(usual) else { return Ok(None) };
        // What is wrong may hold a secret: it is not repeated.
        let parsed = reqwest::Url::parse(&url)
            .map_err(|_| Failure::usage("OTEL_EXPORTER_OTLP_ENDPOINT is no URL"))?;
        if parsed.scheme() != "http" {
            return Err(Failure::usage("the collector of spans is called by http:// alone"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let given = var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        for pair in given.split(',').filter(|pair| !pair.trim().is_empty()) {
            let header = pair.split_once('=').and_then(|(name, value)| {
                let mut value = HeaderValue::from_str(value.trim()).ok()?;
                value.set_sensitive(true);
                Some((name.trim().parse::<HeaderName>().ok()?, value))
            });
            let Some((name, value)) = header else {
                return Err(Failure::usage("OTEL_EXPORTER_OTLP_HEADERS is no list of name=value"));
            };
            headers.insert(name, value);
        }
        let secret =
            headers.len() > 1 || !parsed.username().is_empty() || parsed.password().is_some();
        if secret && !is_here(&parsed) {
            return Err(Failure::usage(
                "headers for the collector of spans go to this machine alone: to another one they \
                 would go in the clear",
            ));
        }
        let client = without_tls()?
            .no_proxy()
            .default_headers(headers)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|_| Failure::usage("the collector of spans cannot be called"))?;
        Ok(Some(Self { url, client }))
    }
}

/// Whether a URL is one of this machine.
fn is_here(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl SpanSink for Collector {
    fn export(&self, request: Vec<u8>) -> BoxFuture<'static, ()> {
        let sent = self.client.post(&self.url).body(request).send();
        async move {
            match sent.await {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    tracing::warn!(status, "the collector of spans refused them");
                }
                Err(error) => {
                    tracing::warn!(error = %error.without_url(), "the collector was not reached");
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_collector() {
        let check = |vars: &[(&str, &str)], expect: Result<Option<&str>, ()>| {
            let var = |name: &str| {
                vars.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
            };
            let got = Collector::from(var).map(|made| made.map(|made| made.url)).map_err(|_| ());
            assert_eq!(got, expect.map(|url| url.map(str::to_owned)), "{vars:?}");
        };
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
        check(&[], Ok(None));
        check(&[base], Ok(Some("http://127.0.0.1:4318/v1/traces")));
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/x");
        check(&[base, whole], Ok(Some("http://127.0.0.1:1/x")));
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://elsewhere")], Err(()));
        check(
            &[base, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, c=d")],
            Ok(Some("http://127.0.0.1:4318/v1/traces")),
        );
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=42");
        let base_of = |url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url);
        check(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")], Err(()));
        check(&[base_of("no url")], Err(()));
        for here in ["http://localhost:1", "http://[::1]:1", "http://127.0.0.2"] {
            let expect = format!("{here}/v1/traces");
            check(&[base_of(here), headers], Ok(Some(&expect)));
        }
        // A secret does not leave this machine in the clear.
        check(
            &[base_of("http://elsewhere.example")],
            Ok(Some("http://elsewhere.example/v1/traces")),
        );
        check(&[base_of("http://elsewhere.example"), headers], Err(()));
        check(&[base_of("http://127.0.0.1.elsewhere.example"), headers], Err(()));
        check(&[base_of("http://ada:key@elsewhere.example")], Err(()));
    }
}
