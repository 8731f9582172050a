//! The network itself, so that tests can stand in for it; it judges nothing.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// How long a name or a connection may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What names mean, and the way to addresses.
pub trait Outside: Send + Sync + fmt::Debug + 'static {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
    /// A connection.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Internet;

impl Outside for Internet {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        async move {
            let found = timeout(PATIENCE, lookup_host((host, 0))).await??;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        async move { timeout(PATIENCE, TcpStream::connect(address)).await? }.boxed()
    }
}
