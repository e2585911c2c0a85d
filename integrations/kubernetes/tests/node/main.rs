//! The driver and the device plugin as processes on a node in files, with clients that do what a
//! kubelet does, and an API server in memory.

mod api;
mod containers;
mod machine;
mod plugin;

use std::fs;
use std::time::Instant;

use futures::StreamExt;
use serde_json::json;
use xsched_kubernetes::api::calls::dra_v1beta1::d_r_a_plugin_client::DRAPluginClient;
use xsched_kubernetes::api::calls::health::d_r_a_resource_health_client::DRAResourceHealthClient;
use xsched_kubernetes::api::dra::{Claim, NodePrepareResourcesRequest};
use xsched_kubernetes::api::health::{HEALTHY, NodeWatchResourcesRequest, UNHEALTHY};

use api::Api;
use machine::{Kubelet, Machine, allocation, claim, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_prepared_once_over_restarts_of_driver_and_kubelet() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let config = api.kubeconfig(&machine.path(""));
    api.put_claim("a", "uid-a", allocation("batch", "30"));
    let driver = machine.start(&["dra"], Some(&config));
    let kubelet = Kubelet::start(&machine).await;
    assert_eq!(
        (kubelet.info.r#type.as_str(), kubelet.info.name.as_str()),
        ("DRAPlugin", "gpu.xsched.dev")
    );
    let claims = [claim("a", "uid-a")];
    let first = kubelet.prepare(&claims).await;
    assert_eq!(first[0].error, "");
    let device = &first[0].devices[0];
    assert_eq!(device.cdi_device_ids, ["nvidia.com/gpu=GPU-a", "xsched.dev/claim=uid-a"]);
    assert_eq!((device.pool_name.as_str(), device.device_name.as_str()), ("node-1", "nvidia-0"));
    assert_eq!(
        (device.share_id.as_deref(), device.request_names.as_slice()),
        (Some("share-1"), &["gpu".to_owned()][..])
    );
    let written = machine.device("uid-a");
    let args = written["devices"][0]["containerEdits"]["hooks"][0]["args"].to_string();
    assert!(args.contains(r#""--class","batch","--share=30""#), "{args}");

    // The kubelet starts again and asks for all claims of its pods.
    drop(kubelet);
    let kubelet = Kubelet::start(&machine).await;
    assert_eq!(kubelet.prepare(&claims).await, first);

    // The driver is killed, and starts again while pods run.
    drop(driver);
    assert_eq!(machine.claims(), ["xsched-claim-uid-a.json"]);
    let _driver = machine.start(&["dra"], Some(&config));
    let kubelet = Kubelet::start(&machine).await;
    assert_eq!((kubelet.prepare(&claims).await, machine.claims().len()), (first.clone(), 1));
    assert_eq!(machine.device("uid-a"), written);

    // As kubelets ask that do not know version 1.
    let mut older = DRAPluginClient::new(kubelet.services.clone());
    let request = NodePrepareResourcesRequest { claims: claims.to_vec() };
    let answer = older.node_prepare_resources(request).await.expect("an answer").into_inner();
    assert_eq!(answer.claims["uid-a"], first[0]);

    for _ in 0..2 {
        assert_eq!(kubelet.unprepare(&claims).await, [""]);
        assert_eq!(machine.claims(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_claims_are_refused_each_with_its_reason() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let _driver = machine.start(&["dra"], Some(&api.kubeconfig(&machine.path(""))));
    let kubelet = Kubelet::start(&machine).await;
    api.put_claim("fine", "uid-fine", allocation("normal", "10"));
    api.put_claim("other", "uid-new", allocation("normal", "10"));
    api.put_claim("free", "uid-free", json!(null));
    api.put_claim("class", "uid-class", allocation("fast", "10"));
    let mut elsewhere = allocation("normal", "10");
    elsewhere["devices"]["results"][0]["device"] = json!("nvidia-7");
    api.put_claim("elsewhere", "uid-elsewhere", elsewhere);
    api.put_claim("path", "../../x", allocation("normal", "10"));
    let cases = [
        (claim("gone", "uid-gone"), "not there any more"),
        (claim("other", "uid-old"), "another one of the same name, with uid uid-new"),
        (claim("free", "uid-free"), "is not allocated"),
        (claim("class", "uid-class"), "write interactive, normal, batch"),
        (claim("elsewhere", "uid-elsewhere"), "on this node, which has nvidia-0"),
        (claim("path", "../../x"), "no number of a claim"),
        (Claim { uid: "uid-none".to_owned(), ..Claim::default() }, "a namespace and a name"),
        (claim("fine", "uid-fine"), ""),
    ];
    let claims = cases.each_ref().map(|(claim, _)| claim.clone());
    let answers = kubelet.prepare(&claims).await;
    for (answer, (claim, why)) in answers.iter().zip(&cases) {
        assert!(answer.error.contains(why), "{claim:?}: {}", answer.error);
        assert_eq!(
            (answer.error.is_empty(), answer.devices.len() == 1),
            (why.is_empty(), why.is_empty())
        );
    }
    assert_eq!(machine.claims(), ["xsched-claim-uid-fine.json"]);
    assert!(kubelet.unprepare(&[claim("path", "../../x")]).await[0].contains("no number"));

    // The vendor's container devices are gone.
    fs::remove_file(machine.path("etc/cdi/nvidia.json")).expect("it is there");
    let error = kubelet.prepare(&[claim("fine", "uid-fine")]).await[0].error.clone();
    assert!(error.contains("run `nvidia-ctk cdi generate"), "{error}");
}

/// Figures are printed. Processor time and memory do not depend on what else runs, and the bounds
/// are several times what they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_claims_take_little_time_and_memory() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let driver = machine.start(&["dra"], Some(&api.kubeconfig(&machine.path(""))));
    let kubelet = Kubelet::start(&machine).await;
    let claims: Vec<_> = (0..1_000).map(|n| claim(&format!("c{n}"), &format!("uid-{n}"))).collect();
    claims.iter().for_each(|one| api.put_claim(&one.name, &one.uid, allocation("batch", "10")));
    let read = |file: &str| {
        fs::read_to_string(format!("/proc/{}/{file}", driver.0.id())).expect("it runs")
    };
    let peak_kib = || {
        let text = read("status");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    // Of user and kernel. A tick has 10 ms.
    let processor_ms = || {
        let text = read("stat");
        let fields = text.rsplit_once(')').expect("a name").1.split_whitespace().skip(11).take(2);
        10 * fields.map(|field| field.parse::<u64>().expect("a number")).sum::<u64>()
    };
    // As a kubelet asks: the claims of one pod at a time.
    let before_kib = {
        kubelet.prepare(&claims[..1]).await;
        peak_kib()
    };
    let start = Instant::now();
    for one in &claims {
        assert_eq!(kubelet.prepare(std::slice::from_ref(one)).await[0].error, "");
    }
    let one_by_one = start.elapsed();
    let start = Instant::now();
    assert!(kubelet.prepare(&claims).await.iter().all(|answer| answer.error.is_empty()));
    let at_once = start.elapsed();
    let after_kib = peak_kib();
    assert_eq!(machine.claims().len(), 1_000);
    let start = Instant::now();
    for one in &claims {
        assert_eq!(kubelet.unprepare(std::slice::from_ref(one)).await, [""]);
    }
    let undone = start.elapsed();
    assert_eq!(machine.claims().len(), 0);
    let used_ms = processor_ms();
    println!(
        "1000 claims: prepared one by one in {one_by_one:.1?}, all at once in {at_once:.1?}, \
         unprepared in {undone:.1?}, with {used_ms} ms of a processor; memory {before_kib} KiB \
         before, at most {after_kib} KiB"
    );
    assert!(used_ms < 60_000);
    assert!(after_kib - before_kib < 64 * 1_024);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_that_is_removed_or_changed_is_published_again() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let config = api.kubeconfig(&machine.path(""));
    let driver = machine.start(&["dra"], Some(&config));
    let published = |generation: u64| {
        let slice = api.slice()?;
        (slice["spec"]["pool"]["generation"] == generation).then_some(slice)
    };
    let slice = until("it is not published", async || published(1)).await;
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(slice["spec"]["devices"][0]["name"], "nvidia-0");
    // A driver that starts changes nothing.
    drop(driver);
    let _driver = machine.start(&["dra"], Some(&config));
    Kubelet::start(&machine).await;
    // The kubelet removes the slices of drivers that are not there, and others change things.
    api.change_slice(|_| false);
    until("it is not published again", async || published(1)).await;
    // Until the driver watches, a change may be one that it has not seen: both are fine.
    api.change_slice(|slice| {
        slice["spec"]["devices"] = json!([]);
        true
    });
    let slice = until("it is not corrected", async || published(2)).await;
    assert_eq!(slice["spec"]["devices"][0]["name"], "nvidia-0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gpu_that_its_driver_no_longer_shows_is_unhealthy() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let _driver = machine.start(&["dra"], Some(&api.kubeconfig(&machine.path(""))));
    let kubelet = Kubelet::start(&machine).await;
    let mut client = DRAResourceHealthClient::new(kubelet.services);
    let looks = client.node_watch_resources(NodeWatchResourcesRequest {}).await;
    let mut looks = looks.expect("an answer").into_inner();
    let first = looks.next().await.expect("a look").expect("no error").devices;
    assert_eq!((first.len(), first[0].health), (1, HEALTHY));
    fs::remove_dir_all(machine.path("proc/driver/nvidia/gpus")).expect("it is there");
    while let Some(look) = looks.next().await {
        let device = &look.expect("no error").devices[0];
        assert_eq!(device.device.as_ref().expect("a name").device_name, "nvidia-0");
        if device.health == UNHEALTHY {
            return;
        }
    }
    panic!("the driver ends its answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_say_what_is_missing_and_metrics_count_claims() {
    let (machine, api) = (Machine::new(), Api::start().await);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = free.local_addr().expect("an address").to_string();
    drop(free);
    let config = api.kubeconfig(&machine.path(""));
    let _driver = machine.start(&["dra", "--listen", &at], Some(&config));
    let get = async |path: &str| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(&at).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    };
    until("the kubelet is said to be missing", async || {
        get("/readyz").await.filter(|text| text.contains("503") && text.contains("kubelet has not"))
    })
    .await;
    let kubelet = Kubelet::start(&machine).await;
    until("only the daemon is missing", async || {
        let text = get("/readyz").await?;
        let is_it = text.contains("xschedd at") && !text.contains("not published");
        (is_it && !text.contains("kubelet has not")).then_some(())
    })
    .await;
    api.put_claim("a", "uid-a", allocation("batch", "30"));
    kubelet.prepare(&[claim("a", "uid-a"), claim("b", "uid-b")]).await;
    let text = get("/metrics").await.expect("an answer");
    for line in [
        "xsched_kubernetes_prepared_total{result=\"done\"} 1",
        "xsched_kubernetes_prepared_total{result=\"error\"} 1",
        "xsched_kubernetes_prepare_time_seconds_count 2",
        "xsched_kubernetes_claims 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_node_without_a_gpu_is_refused() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.path("proc")).expect("it is there");
    let status = machine.start(&["dra"], None).0.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
}
