//! The driver and the device plugin as a program.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::{Parser, Subcommand, ValueEnum, value_parser};
use futures::future::try_join_all;
use tokio::signal::unix::{SignalKind, signal};
use xsched_kubernetes::devices::Devices;
use xsched_kubernetes::driver::Driver;
use xsched_kubernetes::health::Health;
use xsched_kubernetes::plugin::Plugin;
use xsched_kubernetes::state::State;
use xsched_kubernetes::{http, slices};
use xsched_launch::Class;

/// Give pods a part of a GPU's time, which the xschedd of their node schedules.
///
/// Runs on each node with GPUs, as root, beside xschedd.
#[derive(Debug, Parser)]
#[command(version, name = "xsched-kubernetes")]
struct Args {
    #[command(subcommand)]
    mode: Mode,
    /// Folder of the kubelet.
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet: PathBuf,
    /// Folder for container devices, where the container runtime looks.
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/run/cdi")]
    cdi: PathBuf,
    /// Folder with bin/xsched and lib/xsched, on the node and here.
    #[arg(long, global = true, value_name = "DIR", default_value = "/opt/xsched")]
    xsched: PathBuf,
    /// Socket of xschedd, on the node and here.
    #[arg(long, global = true, value_name = "PATH", default_value = "/run/xsched/socket")]
    socket: PathBuf,
    /// Where the node's proc, sys and etc are.
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Address for probes and metrics over HTTP, as in 0.0.0.0:9465.
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Be the driver gpu.xsched.dev for dynamic resource allocation, from Kubernetes 1.34 on.
    Dra {
        /// Name of this node in the cluster.
        #[arg(long, env = "NODE_NAME", value_name = "NAME")]
        node: String,
    },
    /// Offer the resources xsched.dev/interactive, normal and batch, from Kubernetes 1.26 on.
    DevicePlugin {
        /// Slots of each resource on each GPU.
        #[arg(long, value_name = "N", default_value_t = 10,
            value_parser = value_parser!(u16).range(1..=100))]
        slots: u16,
    },
}

/// Serves until a signal or an error ends it.
async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let Args { mode, kubelet, cdi, xsched, socket, root, listen } = args;
    let health = Arc::new(Health::new(&root));
    if health.gpus().is_empty() {
        return Err(format!(
            "no GPU below {}: load the driver of NVIDIA or AMD, or choose nodes with GPUs by the \
             nodeSelector",
            root.display()
        )
        .into());
    }
    let devices = Arc::new(Devices::new(&cdi, &root, &xsched, &socket)?);
    let needed = match mode {
        Mode::Dra { .. } => 1,
        Mode::DevicePlugin { .. } => Class::value_variants().len(),
    };
    let state = Arc::new(State::new(needed, socket));
    let looks = async { health.keep().await };
    let probes = async {
        match listen {
            Some(at) => Ok(http::serve(at, Arc::clone(&state), Arc::clone(&devices)).await?),
            None => std::future::pending().await,
        }
    };
    let serve = async {
        match mode {
            Mode::Dra { node } => {
                let client = kube::Client::try_default().await?;
                let gpus = health.gpus().to_vec();
                let publish = slices::keep(client.clone(), node.clone(), gpus, Arc::clone(&state));
                let (health, state) = (Arc::clone(&health), Arc::clone(&state));
                let devices = Arc::clone(&devices);
                let driver = Driver::new(client, devices, node, health, state, &kubelet);
                tokio::select! {
                    served = Arc::new(driver).serve(&kubelet) => Ok(served?),
                    () = publish => Ok(()),
                }
            }
            Mode::DevicePlugin { slots } => {
                devices.write_classes()?;
                state.published.store(true, Ordering::Relaxed);
                let plugins = Class::value_variants().iter().map(|class| {
                    let (devices, health) = (Arc::clone(&devices), Arc::clone(&health));
                    Arc::new(Plugin::new(*class, slots, devices, health)).serve(&kubelet, &state)
                });
                try_join_all(plugins).await?;
                Ok(())
            }
        }
    };
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        served = serve => served,
        served = probes => served,
        () = looks => Ok(()),
        _ = term.recv() => Ok(()),
        _ = int.recv() => Ok(()),
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
