//! TLS: other machines are served by it alone, by the names that people gave.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use aion_server::{RemoteConfig, ServeError, Server, ServerConfig, TlsFiles};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::world::World;

const NAME: &str = "team.example";

fn certificate(dir: &TempDir) -> (TlsFiles, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let files =
        TlsFiles { certificate: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
    fs::write(&files.certificate, cert.pem()).unwrap();
    fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    (files, cert.der().clone())
}

fn remote(tls: TlsFiles) -> RemoteConfig {
    RemoteConfig { listen: "0.0.0.0:0".parse().unwrap(), tls, names: vec![NAME.to_owned()] }
}

/// One request over TLS, and all of its answer.
async fn ask(port: u16, trusted: &CertificateDer<'static>, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // Whoever closes without the last word of TLS has still answered.
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn other_machines_are_served_by_tls_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(&dir);
    let world = World::with(|config| config.remote = Some(remote(files))).await;
    let (url, login_link) = world.remote.clone().unwrap();
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    assert!(login_link.starts_with(&format!("https://{NAME}:{port}/login?code=")), "{login_link}");
    let health = |host: &str, more: &str| {
        format!(
            "GET /api/health HTTP/1.1\r\nhost: {host}\r\nauthorization: {}\r\n{more}\
             connection: close\r\n\r\n",
            world.token.bearer()
        )
    };
    let own = format!("{NAME}:{port}");
    let answer = ask(port, &trusted, &health(&own, "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let origin = format!("origin: https://{own}\r\n");
    assert!(ask(port, &trusted, &health(&own, &origin)).await.starts_with("HTTP/1.1 200"));
    let clear = format!("origin: http://{own}\r\n");
    assert!(ask(port, &trusted, &health(&own, &clear)).await.starts_with("HTTP/1.1 403"));
    let other = format!("evil.example:{port}");
    assert!(ask(port, &trusted, &health(&other, "")).await.starts_with("HTTP/1.1 403"));
    // The cookie of a session never travels in the clear.
    let path = login_link.split_once(&own).unwrap().1;
    let login = format!("GET {path} HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\n\r\n");
    let answer = ask(port, &trusted, &login).await;
    assert!(answer.contains("; HttpOnly; SameSite=Strict; Secure\r\n"), "{answer}");

    // A person's own clients are served there too.
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let call = format!(
        "POST /mcp HTTP/1.1\r\nhost: {own}\r\nauthorization: {}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{hello}",
        world.token.bearer(),
        hello.len()
    );
    let answer = ask(port, &trusted, &call).await;
    assert!(answer.contains("aion_send_message"), "{answer}");

    // What is said to one address does not open the other.
    assert!(
        ask(port, &trusted, &health(&format!("{NAME}:{}", world.port), "")).await.contains("403")
    );

    // Who speaks no TLS gets no answer.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    plain.write_all(health(&own, "").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_refused_by_its_file() {
    let world = World::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (good, _) = certificate(&dir);
    let empty = dir.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let check = async |files: TlsFiles, expect: &str| {
        let token = world.token.clone();
        let config = ServerConfig {
            remote: Some(remote(files)),
            ..ServerConfig::local(address, "ada".to_owned(), token, "/nowhere".into())
        };
        match Server::bind(world.service.clone(), config).await {
            Err(ServeError::Tls(error)) => {
                assert!(error.to_string().contains(expect), "{error}");
            }
            other => panic!("{other:?}"),
        }
    };
    check(TlsFiles { certificate: empty.clone(), ..good.clone() }, "empty.pem").await;
    check(TlsFiles { key: empty, ..good.clone() }, "empty.pem").await;
    check(TlsFiles { key: "/nowhere/key.pem".into(), ..good.clone() }, "/nowhere/key.pem").await;
    let other = tempfile::tempdir().unwrap();
    let (strange, _) = certificate(&other);
    check(TlsFiles { key: strange.key, ..good }, "certificate").await;
}
