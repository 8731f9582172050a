//! TLS of the client: which authorities are trusted; a connection to this machine needs none.

use std::path::Path;
use std::sync::Arc;

use aion_api::Exit;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::exit::Failure;

/// For a daemon of this machine: it is called without TLS, and nobody is trusted.
pub(super) fn none() -> Result<Arc<ClientConfig>, Failure> {
    config(RootCertStore::empty())
}

/// What calls places without TLS. Nobody is trusted, and no authority is read for it.
pub(crate) fn without_tls() -> Result<reqwest::ClientBuilder, Failure> {
    Ok(reqwest::Client::builder().tls_backend_preconfigured((*none()?).clone()))
}

/// What calls places with TLS: the authorities of this machine are trusted.
pub(crate) fn with_tls() -> Result<reqwest::ClientBuilder, Failure> {
    Ok(reqwest::Client::builder().tls_backend_preconfigured((*with_authorities(None)?).clone()))
}

/// For a daemon elsewhere: the authorities of this machine, and one that the person named.
pub(crate) fn with_authorities(named: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one that is not trusted; the handshake then says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = named {
        let bad = |reason: String| {
            let message = format!("read {} as PEM: {reason}", path.display());
            Failure::new(Exit::Usage, "tls.authority", message)
        };
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| bad(error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("it holds no certificate".to_owned()));
        }
        for certificate in certificates {
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, Failure> {
    let fail = |error: rustls::Error| {
        Failure::new(Exit::Failure, "tls.unusable", format!("prepare TLS: {error}"))
    };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(fail)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
