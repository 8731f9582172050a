//! Listens on a loopback address until it is told to stop; it serves nobody else.

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aion_core::id::Seq;
use aion_runtime::{Connections, StoreError, TeamService};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::app::{App, Inner};
use crate::auth::{Access, AccessToken};
use crate::editor::Editor;
use crate::feed::Feed;
use crate::groundwork::Groundwork;
use crate::mcp::Door;
use crate::metrics::Counts;
use crate::openapi::router;

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
    /// What is prepared around a team's beginning.
    pub groundwork: Arc<dyn Groundwork>,
}

/// Why the daemon does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Only this machine is served: everything else needs TLS, which is not there yet.
    #[error(
        "listen on {0}: only loopback addresses (127.0.0.1, ::1) are served, because there is no TLS"
    )]
    NotLoopback(SocketAddr),
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
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    door: Door,
}

impl Server {
    /// Begins to listen, and opens the teams that have not ended.
    pub async fn bind(service: TeamService, config: ServerConfig) -> Result<Self, ServeError> {
        let address = config.listen;
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let fail = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let door = Door::bind().await.map_err(|source| ServeError::Members { source })?;
        // Before teams are opened, whose members may ask for their way to the team at once.
        let members = Arc::clone(door.tokens());
        if service.house().connections.set(Arc::clone(&members) as Arc<dyn Connections>).is_err() {
            tracing::warn!("these teams have a listener for members already");
        }
        let stop = CancellationToken::new();
        let feed = Feed::new(service.house().clock.wall_ms(), stop.clone());
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
            groundwork: config.groundwork,
            port: address.port(),
            stop,
            sockets: TaskTracker::new(),
            service,
        });
        Ok(Self { listener, address, app, door })
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
        login_link(self.address.port(), &self.app.access.login_code())
    }

    /// Serves until `stop` is cancelled; then no new request is taken, those that run may end, and
    /// sockets are closed with a code. The teams are left to their service.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let Self { listener, app, door, .. } = self;
        let members = tokio::spawn(door.run(app.service.clone(), stop.clone()));
        // A frame goes out when it is written: nobody waits for a packet to fill.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
        });
        let router = router(app.clone());
        let began = stop.clone();
        let serving = axum::serve(listener, router)
            .with_graceful_shutdown(async move { began.cancelled().await })
            .into_future();
        let late = async {
            stop.cancelled().await;
            app.stop.cancel();
            app.sockets.close();
            tokio::time::sleep(GRACE).await;
        };
        let served = tokio::select! {
            served = serving => served,
            () = late => Ok(()),
        };
        app.stop.cancel();
        app.sockets.close();
        // Who does not end by then is dropped with the runtime.
        let _ = tokio::time::timeout(GRACE, app.sockets.wait()).await;
        if let Err(error) = members.await {
            tracing::error!(%error, "the members' listener fell");
        }
        served
    }
}

/// Where a login code is used.
pub(crate) fn login_link(port: u16, code: &str) -> String {
    format!("http://127.0.0.1:{port}/login?code={code}")
}

/// The first event of a team's log.
pub(crate) const BEGINNING: Seq = Seq(0);
