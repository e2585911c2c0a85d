//! `cargo xtask`: repository chores.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xsched_xtask::capi::{check, headers, install};
use xsched_xtask::{
    ahead, book, ci, deb, fuzz, hip, integrations, kfd_vm, lab, loom, mutants, package, proof,
    python, rocm, stress, test, tidy, tour,
};

/// Repository chores.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    after_help = "Exit codes: 0 fine, 1 something is wrong, 2 wrong arguments."
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check the house rules that the compiler and clippy cannot check.
    Tidy(tidy::Options),
    /// Run the tests that need nothing but Rust and a C compiler.
    Test,
    /// Build and run the binary that shows that the core needs neither std nor an allocator.
    Proof,
    /// Run the fuzz targets, or replay a finding.
    Fuzz(fuzz::Options),
    /// Stress the runtime for ten minutes, or for as long as you say.
    Stress(stress::Options),
    /// Run the loom models of what threads share.
    Loom(loom::Options),
    /// Put deliberate defects into a copy, and check that the loom models notice each.
    Mutants(mutants::Options),
    /// Package the crates that are published, and build them from their packages.
    Package,
    /// Check what can be checked about HIP without an AMD GPU. May install Debian's packages.
    Hip,
    /// Compile programs in C and C++ against the C API as it is installed, and run them.
    Capi(check::Options),
    /// Write the C API's headers from its Rust source, or check them.
    Headers(headers::Options),
    /// Install the C API: libraries, headers, CMake package, pkg-config file.
    Install(install::Options),
    /// Build the package for Debian, and try it out.
    Deb,
    /// Ask AMD's kernel driver in a virtual machine, and compare. May download Debian's packages.
    KfdVm,
    /// Run the project's checks on AMD's own HIP and ROCr over an emulated GPU. May download a
    /// wheel and Debian's packages.
    Rocm(rocm::Options),
    /// Run the experiments of the test plan on the processor, with stand-ins for the models.
    Lab,
    /// Install the package for Python into a new environment, and test it. May install Debian's
    /// packages, and takes others from PyPI.
    Python(python::Options),
    /// Write the generated parts of the book, build it, and check its links.
    Book(book::Options),
    /// Run the commands of the book's tour of the daemon.
    Tour,
    /// Run the plugin for Slurm in a Slurm of two nodes on this machine. May install Debian's
    /// packages.
    Slurm,
    /// Run containers with the container devices in Podman. May install Debian's packages.
    Podman,
    /// Run the daemon's units in a systemd that boots in a container. May install Debian's
    /// packages.
    Systemd,
    /// Ask a Prometheus what the dashboard asks, beside two programs. May install and download
    /// Debian's packages.
    Prometheus,
    /// Run containers with what the container devices say in containerd. May install and download
    /// Debian's packages.
    Containerd,
    /// Test the driver and the device plugin for Kubernetes. May install Debian's packages.
    Kubernetes,
    /// Test the package for Ray, and run it in a Ray of two nodes on this machine. May install
    /// Debian's packages, and takes Ray from PyPI.
    Ray,
    /// Run the driver and the device plugin in a Kubernetes of one node, which the first time takes
    /// 13 minutes of a processor to build. May install and download Debian's packages.
    KubernetesNode,
    /// Build what later steps of CI need. CI starts it itself.
    #[command(hide = true)]
    Ahead,
    /// Do everything that CI does, up to the first failure.
    Ci(ci::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().chore {
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Test => test::run().map(drop),
        Chore::Proof => proof::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Stress(options) => stress::run(&options),
        Chore::Loom(options) => loom::run(&options),
        Chore::Mutants(options) => mutants::run(&options),
        Chore::Package => package::run(),
        Chore::Hip => hip::run(),
        Chore::Capi(options) => check::run(&options),
        Chore::Headers(options) => headers::run(&options),
        Chore::Install(options) => install::run(&options),
        Chore::Deb => deb::run(),
        Chore::KfdVm => kfd_vm::run(),
        Chore::Rocm(options) => rocm::run(&options),
        Chore::Lab => lab::run(),
        Chore::Python(options) => python::run(&options),
        Chore::Book(options) => book::run(&options),
        Chore::Tour => tour::run(),
        Chore::Slurm => integrations::slurm(),
        Chore::Podman => integrations::podman(),
        Chore::Systemd => integrations::systemd(),
        Chore::Prometheus => integrations::prometheus(),
        Chore::Containerd => integrations::containerd(),
        Chore::Kubernetes => integrations::kubernetes(),
        Chore::Ray => integrations::ray(),
        Chore::KubernetesNode => integrations::kubernetes_node(),
        Chore::Ahead => {
            ahead::run();
            Ok(())
        }
        Chore::Ci(options) => ci::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
