//! An API server in memory: a node, claims, and slices with a watch.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

#[derive(Debug)]
struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
    /// Events with their versions, for watches that begin behind an earlier one.
    past: Vec<(u64, String)>,
    events: broadcast::Sender<String>,
}

/// The server.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    objects: Arc<Mutex<Objects>>,
    port: u16,
}

impl Api {
    pub(crate) async fn start() -> Self {
        let (events, _) = broadcast::channel(64);
        let node = json!({"metadata": {"name": "node-1", "uid": "node-uid"}});
        let by_path = BTreeMap::from([("/api/v1/nodes/node-1".to_owned(), node)]);
        let objects =
            Arc::new(Mutex::new(Objects { by_path, version: 1, past: Vec::new(), events }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&objects));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { objects, port }
    }

    /// A file that leads clients here.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let file = folder.join("kubeconfig");
        let server = format!("http://127.0.0.1:{}", self.port);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(&file, config.to_string()).expect("a file");
        file
    }

    pub(crate) fn put_claim(&self, name: &str, uid: &str, allocation: Value) {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "ml", "uid": uid}, "spec": {},
            "status": {"allocation": allocation},
        });
        let path = format!("/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/{name}");
        self.objects.lock().expect("no panic").by_path.insert(path, claim);
    }

    pub(crate) fn slice(&self) -> Option<Value> {
        let path = format!("{SLICES}/node-1-gpu.xsched.dev");
        self.objects.lock().expect("no panic").by_path.get(&path).cloned()
    }

    /// Changes the slice, or removes it.
    pub(crate) fn change_slice(&self, change: impl FnOnce(&mut Value) -> bool) {
        let mut objects = self.objects.lock().expect("no panic");
        let path = format!("{SLICES}/node-1-gpu.xsched.dev");
        let mut slice = objects.by_path.remove(&path).expect("it is there");
        let stays = change(&mut slice);
        objects.put(&path, slice, if stays { "MODIFIED" } else { "DELETED" });
    }
}

impl Objects {
    fn put(&mut self, path: &str, mut object: Value, event: &str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if event != "DELETED" {
            self.by_path.insert(path.to_owned(), object.clone());
        }
        let line = json!({"type": event, "object": object}).to_string() + "\n";
        self.past.push((self.version, line.clone()));
        let _ = self.events.send(line);
        object
    }
}

async fn answer(State(objects): State<Arc<Mutex<Objects>>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let is_patch = request.method() == Method::PATCH;
    let body = to_bytes(request.into_body(), 1 << 20).await.expect("a body");
    let mut objects = objects.lock().expect("no panic");
    if is_patch {
        assert!(query.contains("fieldManager=gpu.xsched.dev"), "{query}");
        let object = serde_json::from_slice(&body).expect("JSON");
        let event = if objects.by_path.contains_key(&path) { "MODIFIED" } else { "ADDED" };
        return objects.put(&path, object, event).to_string().into_response();
    }
    if path == SLICES && query.contains("watch=true") {
        let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let since: u64 = since.and_then(|version| version.parse().ok()).expect("a version");
        let past = objects.past.iter().filter(|(version, _)| *version > since);
        let past: Vec<_> = past.map(|(_, line)| line.clone()).collect();
        let events = BroadcastStream::new(objects.events.subscribe());
        let events = events.filter_map(|line| async { line.ok() });
        let lines = futures::stream::iter(past).chain(events).map(Ok::<_, Infallible>);
        return Body::from_stream(lines).into_response();
    }
    if path == SLICES {
        let items: Vec<_> =
            objects.by_path.iter().filter(|(path, _)| path.starts_with(SLICES)).collect();
        let items: Vec<_> = items.into_iter().map(|(_, object)| object.clone()).collect();
        let version = objects.version.to_string();
        let list = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList",
            "metadata": {"resourceVersion": version}, "items": items,
        });
        return list.to_string().into_response();
    }
    match objects.by_path.get(&path) {
        Some(object) => object.to_string().into_response(),
        None => {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": format!("{path} not found"),
            });
            (StatusCode::NOT_FOUND, status.to_string()).into_response()
        }
    }
}
