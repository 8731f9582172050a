//! TLS with the certificate of a file; it makes no certificate and trusts none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Where the certificate and its key are, both as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file holds nothing that can be used.
    #[error("read {path} as PEM: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not. Nothing of the file is in it.
        reason: String,
    },
    /// Certificate and key do not go together, or are of a kind that is not known.
    #[error("use the certificate with its key")]
    Unusable(#[source] rustls::Error),
}

/// What turns connections into private ones.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let fail = |path: &Path, reason: &dyn ToString| TlsError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let at = &files.certificate;
    let chain = CertificateDer::pem_file_iter(at)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fail(at, &error))?;
    if chain.is_empty() {
        return Err(fail(at, &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| fail(&files.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
