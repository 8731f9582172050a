//! The way from inside a wall without a network to the house's proxy; it reads nothing of what goes
//! over it.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 64;

/// Takes connections on a port of the wall's own loopback, and answers which.
pub(super) fn open(network: &Path) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let network = network.to_owned();
    thread::spawn(move || serve(&listener, &network));
    Ok(port)
}

fn serve(listener: &TcpListener, network: &Path) {
    let open = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming().flatten() {
        if open.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (network, counted): (PathBuf, _) = (network.to_owned(), Arc::clone(&open));
        thread::spawn(move || {
            // A connection that breaks is told to both sides by its end.
            let _ = carry(client, &network);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn carry(client: TcpStream, network: &Path) -> io::Result<()> {
    let house = UnixStream::connect(network)?;
    let (mut up_from, mut up_to) = (client.try_clone()?, house.try_clone()?);
    let up = thread::spawn(move || {
        let _ = io::copy(&mut up_from, &mut up_to);
        let _ = up_to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (house, client);
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = up.join();
    Ok(())
}
