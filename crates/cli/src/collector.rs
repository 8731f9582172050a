//! The collector of spans that the environment names; where it names none, none is called.

use std::env;
use std::fmt;
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
        // Its headers may hold a secret.
        f.debug_tuple("Collector").field(&self.url).finish()
    }
}

impl Collector {
    /// By `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` and the usual path.
    pub(crate) fn from_environment() -> Result<Option<Self>, Failure> {
        Self::from(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    fn from(var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Failure> {
        let whole = var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let usual = || {
            let base = var("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        };
        let Some(url) = whole.or_else(usual) else { return Ok(None) };
        if !url.starts_with("http://") {
            let message = format!("the collector of spans is called by http:// alone, not {url}");
            return Err(Failure::usage(message)
                .with_hint("name a collector of this machine in OTEL_EXPORTER_OTLP_ENDPOINT"));
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
                // What is wrong may be a secret: it is not repeated.
                return Err(Failure::usage("OTEL_EXPORTER_OTLP_HEADERS is no list of name=value"));
            };
            headers.insert(name, value);
        }
        let client = without_tls()?
            .default_headers(headers)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|_| Failure::usage("the collector of spans cannot be called"))?;
        Ok(Some(Self { url, client }))
    }
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
        check(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "secret")], Err(()));
    }
}
