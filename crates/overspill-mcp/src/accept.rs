//! Connections: accepted, given so much time, and ended together.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::log::Log;

/// How long a connection may take to send the head of a request, or to begin the next: longer than
/// clients keep one that they do not use.
const HEAD: Duration = Duration::from_secs(120);

/// What is waited where no connection can be accepted now, for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(500);

/// Serves connections until `closing`, and then waits until those that are open have their answers.
pub(crate) async fn accept(
    listener: TcpListener,
    routes: Router,
    closing: impl Future<Output = ()>,
    log: &Log,
) {
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    tokio::pin!(closing);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut closing => break,
        };
        let connection = match accepted {
            Ok((connection, _)) => connection,
            // The one that was to be accepted is gone already.
            Err(error) if is_of_connection(&error) => continue,
            Err(error) => {
                log.say(&format!("no connection can be accepted now: {error}"));
                sleep(PAUSE).await;
                continue;
            }
        };
        // What is written in small pieces must not wait for others to go with it.
        let _ = connection.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let served = http.serve_connection(TokioIo::new(connection), service);
        let served = connections.watch(served);
        tokio::spawn(async move {
            // A client that breaks off, or takes too long, is no fault of the proxy's.
            let _ = served.await;
        });
    }
    drop(listener);
    connections.shutdown().await;
}

fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
