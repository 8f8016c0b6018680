//! A baseline for server benchmarks: axum and one durable SQLite insert per request.
//!
//! `floor FILE` prints its port.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::post;
use hyper_util::rt::TokioIo;
use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: floor FILE")?;
    let connection = Connection::open(Path::new(&path))?;
    connection.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; \
         CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, time INTEGER, actor TEXT, data TEXT)",
    )?;
    let connection = Arc::new(Mutex::new(connection));
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(serve(connection))
}

async fn serve(connection: Arc<Mutex<Connection>>) -> Result<(), Box<dyn std::error::Error>> {
    let write = move |body: String| {
        let connection = Arc::clone(&connection);
        async move {
            let written = tokio::task::spawn_blocking(move || {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                connection.execute("INSERT INTO events (time, actor, data) VALUES (1, 'a', ?1)", [body])
            });
            format!("{{\"ok\":{}}}", matches!(written.await, Ok(Ok(1))))
        }
    };
    let router = Router::new().route("/", post(write));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let router = router.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let mut router = router.clone();
                async move { tower_service::Service::call(&mut router, request.map(axum::body::Body::new)).await }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
