//! Probes and metrics over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::devices::Devices;
use crate::state::State;

/// Media type of [`State::metrics`].
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics`, and `/readyz`, which says what is missing.
///
/// # Errors
/// If it cannot listen there.
pub async fn serve(at: SocketAddr, state: Arc<State>, devices: Arc<Devices>) -> io::Result<()> {
    let of_metrics = Arc::clone(&state);
    let metrics = || async move {
        ([(header::CONTENT_TYPE, OPEN_METRICS)], of_metrics.metrics(devices.count()))
    };
    let ready = || async move {
        let missing = tokio::task::spawn_blocking(move || state.missing()).await;
        match missing {
            Ok(lines) if lines.is_empty() => "ready\n".into_response(),
            Ok(lines) => (StatusCode::SERVICE_UNAVAILABLE, lines.join("\n") + "\n").into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let routes = Router::new().route("/metrics", get(metrics)).route("/readyz", get(ready));
    axum::serve(TcpListener::bind(at).await?, routes).await
}
