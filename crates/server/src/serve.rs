//! The daemon's server, from its configuration to its end; it serves other machines by TLS alone.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aion_core::id::Seq;
use aion_runtime::{Connections, StoreError, TeamService};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::app::{App, Inner};
use crate::auth::{Access, AccessToken};
use crate::editor::Editor;
use crate::feed::Feed;
use crate::files::FileStore;
use crate::groundwork::Groundwork;
use crate::listen::{Listening, is_local};
use crate::mcp::Door;
use crate::metrics::Counts;
use crate::names::Names;
use crate::openapi::router;
use crate::spans::{SpanSink, Spans};
use crate::tls::{TlsError, TlsFiles, acceptor};

/// How long requests and sockets that are open may take to end when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);

/// What a server is told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The user whose daemon this is.
    pub user: String,
    /// The token of the command line.
    pub token: AccessToken,
    /// Where workspaces are made for teams that have none.
    pub workspaces: PathBuf,
    /// Where files are kept that go along with messages.
    pub files: PathBuf,
    /// Where spans of OpenTelemetry go; without it none are made.
    pub spans: Option<Arc<dyn SpanSink>>,
    /// How other machines are served; without it nobody but this machine is.
    pub remote: Option<RemoteConfig>,
    /// What is prepared around a team's beginning.
    pub groundwork: Arc<dyn Groundwork>,
}

impl ServerConfig {
    /// What serves this machine alone.
    pub fn local(
        listen: SocketAddr,
        user: String,
        token: AccessToken,
        workspaces: PathBuf,
    ) -> Self {
        Self {
            listen,
            user,
            token,
            files: workspaces.with_file_name("files"),
            workspaces,
            spans: None,
            remote: None,
            groundwork: Arc::new(()),
        }
    }
}

/// How other machines are served: at a second address, by TLS alone.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// Where to listen for them; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The certificate that they see.
    pub tls: TlsFiles,
    /// The names under which they call.
    pub names: Vec<String>,
}

/// Why the daemon does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Only this machine is served here; others have an address of their own, with TLS.
    #[error("listen on {0}: only loopback addresses (127.0.0.1, ::1) are served without TLS")]
    NotLoopback(SocketAddr),
    /// The certificate cannot be used.
    #[error("begin TLS")]
    Tls(#[source] TlsError),
    /// The address cannot be used.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// There is no port for members.
    #[error("listen for members")]
    Members {
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// The teams could not be read.
    #[error("open the teams")]
    Store(#[source] StoreError),
}

/// A daemon's server, listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    remote: Option<Remote>,
    app: App,
    door: Door,
    /// Hands spans over to the collector.
    telling: Option<tokio::task::JoinHandle<()>>,
}

/// The address for other machines.
struct Remote {
    listener: TcpListener,
    tls: TlsAcceptor,
    names: Arc<Names>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

impl Server {
    /// Begins to listen, and opens the teams that have not ended.
    pub async fn bind(service: TeamService, config: ServerConfig) -> Result<Self, ServeError> {
        let address = config.listen;
        if !is_local(address) {
            return Err(ServeError::NotLoopback(address));
        }
        let listener = listen(address).await?;
        let address = listener.local_addr().map_err(|source| not_there(address, source))?;
        let door = Door::bind().await.map_err(|source| ServeError::Members { source })?;
        let remote = match &config.remote {
            Some(remote) => Some(Remote::bind(remote).await?),
            None => None,
        };
        // Before teams are opened, whose members may ask for their way to the team at once.
        let members = Arc::clone(door.tokens());
        if service.house().connections.set(Arc::clone(&members) as Arc<dyn Connections>).is_err() {
            tracing::warn!("these teams have a listener for members already");
        }
        let stop = CancellationToken::new();
        let (spans, telling) = match config.spans.clone() {
            Some(sink) => {
                let (spans, telling) = Spans::begin(sink, stop.clone());
                (Some(spans), Some(telling))
            }
            None => (None, None),
        };
        let feed = Feed::new(service.house().clock.wall_ms(), stop.clone(), spans);
        for row in service.list().await.map_err(ServeError::Store)? {
            if row.ended {
                continue;
            }
            match service.open(&row.team).await {
                Ok(team) => feed.watch(&service, &team, row.seq),
                Err(error) => tracing::error!(team = %row.team, %error, "a team was not opened"),
            }
        }
        let app = App::new(Inner {
            access: Access::new(config.user, &config.token),
            members,
            editor: Editor::new(),
            feed,
            counts: Counts::default(),
            owners: Mutex::default(),
            workspaces: config.workspaces,
            files: FileStore::new(config.files),
            groundwork: config.groundwork,
            names: Arc::new(Names::new(address, false, &[])),
            stop,
            sockets: TaskTracker::new(),
            service,
        });
        Ok(Self { listener, address, remote, app, door, telling })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether anybody wants something of the daemon.
    pub fn activity(&self) -> Activity {
        Activity::new(self.app.clone())
    }

    /// The port on 127.0.0.1 at which members reach their team.
    pub fn member_port(&self) -> u16 {
        self.door.tokens().port()
    }

    /// A link that signs a browser in, once.
    pub fn login_link(&self) -> String {
        self.app.names.login_link(&self.app.access.login_code())
    }

    /// What other machines call, and a link that signs a browser of theirs in, once.
    pub fn remote(&self) -> Option<(String, String)> {
        let names = &self.remote.as_ref()?.names;
        let link = names.login_link(&self.app.access.login_code());
        Some((names.origin().to_owned(), link))
    }

    /// Serves until `stop` is cancelled; then no new request is taken, those that run may end, and
    /// sockets are closed with a code. The teams are left to their service.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let Self { listener, remote, app, door, telling, .. } = self;
        let members = tokio::spawn(door.run(app.service.clone(), stop.clone()));
        let way_in = |names: &Arc<Names>| router(app.clone(), Arc::clone(names));
        let local = Listening::new(listener, None, way_in(&app.names)).run(stop.clone());
        let remote = remote.map(|remote| {
            let way_in = way_in(&remote.names);
            Listening::new(remote.listener, Some(remote.tls), way_in).run(stop.clone())
        });
        let serving = async {
            match remote {
                Some(remote) => _ = tokio::join!(local, remote),
                None => local.await,
            }
        };
        let late = async {
            stop.cancelled().await;
            app.stop.cancel();
            app.sockets.close();
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = late => {}
        }
        app.stop.cancel();
        app.sockets.close();
        // Who does not end by then is dropped with the runtime.
        let _ = tokio::time::timeout(GRACE, app.sockets.wait()).await;
        if let Some(telling) = telling {
            // A collector that does not answer is not waited for.
            let _ = tokio::time::timeout(GRACE, telling).await;
        }
        if let Err(error) = members.await {
            tracing::error!(%error, "the members' listener fell");
        }
        Ok(())
    }
}

impl Remote {
    async fn bind(config: &RemoteConfig) -> Result<Self, ServeError> {
        let tls = acceptor(&config.tls).map_err(ServeError::Tls)?;
        let listener = listen(config.listen).await?;
        let address = listener.local_addr().map_err(|source| not_there(config.listen, source))?;
        Ok(Self { listener, tls, names: Arc::new(Names::new(address, true, &config.names)) })
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| not_there(address, source))
}

fn not_there(address: SocketAddr, source: io::Error) -> ServeError {
    ServeError::Listen { address, source }
}

/// The first event of a team's log.
pub(crate) const BEGINNING: Seq = Seq(0);
