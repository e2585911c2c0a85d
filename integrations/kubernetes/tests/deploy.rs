//! Manifests, held against what the driver takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};
use xsched_kubernetes::claim::resolve;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

/// Documents of a file, as JSON.
fn documents(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(deploy(file)).expect("a file");
    let documents = Yaml::load_from_str(&text).expect("YAML");
    documents.iter().map(value).collect()
}

fn value(node: &Yaml<'_>) -> Value {
    if let Some(all) = node.as_vec() {
        return all.iter().map(value).collect();
    }
    if let Some(all) = node.as_mapping() {
        let pair = |(key, of): (&Yaml<'_>, &Yaml<'_>)| {
            (key.as_str().expect("a name").to_owned(), value(of))
        };
        return Value::Object(all.iter().map(pair).collect());
    }
    if let Some(number) = node.as_integer() {
        return json!(number);
    }
    node.as_bool().map_or_else(|| json!(node.as_str().expect("text")), Value::Bool)
}

fn items<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().into_iter().flatten()
}

#[test]
fn device_classes_have_parameters_that_the_driver_takes() {
    let classes = documents("dra/deviceclasses.yaml");
    let names: Vec<_> = classes.iter().map(|class| class["metadata"]["name"].to_string()).collect();
    assert_eq!(names, ["\"xsched-interactive\"", "\"xsched-normal\"", "\"xsched-batch\""]);
    for class in classes {
        let mut config = class["spec"]["config"][0].clone();
        config["source"] = json!("FromClass");
        let result =
            json!({"request": "a", "driver": "gpu.xsched.dev", "pool": "n", "device": "d"});
        let devices = json!({"results": [result], "config": [config]});
        let claim = json!({"metadata": {}, "spec": {},
                           "status": {"allocation": {"devices": devices}}});
        let claim = serde_json::from_value(claim).expect("a claim");
        let (rights, _) = resolve(&claim).expect("it is right");
        let name = class["metadata"]["name"].as_str().expect("a name");
        assert_eq!(name, format!("xsched-{}", rights.class.name()));
        let resource = class["spec"]["extendedResourceName"].as_str().expect("a name");
        assert_eq!(resource, format!("xsched.dev/{}", rights.class.name()));
    }
}

#[test]
fn containers_mount_the_volumes_that_there_are() {
    let pod = &documents("base/daemonset.yaml")[0]["spec"]["template"]["spec"];
    let names = |of: &Value, key| {
        let names = items(of, key).map(|one| one["name"].as_str().expect("a name").to_owned());
        names.collect::<BTreeSet<_>>()
    };
    let kinds = ["containers", "initContainers"];
    let containers = kinds.into_iter().flat_map(|kind| items(pod, kind));
    let mounted: BTreeSet<_> = containers.flat_map(|one| names(one, "volumeMounts")).collect();
    assert!(mounted.len() > 3);
    assert_eq!(mounted, names(pod, "volumes"));
}

/// The driver takes its arguments, and the second is the one that another patch replaces.
#[test]
fn the_driver_takes_its_arguments() {
    let pod = &documents("base/daemonset.yaml")[0]["spec"]["template"]["spec"];
    let command: Vec<_> = items(&pod["containers"][1], "command").collect();
    let words: Vec<_> = command.iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(words[..2], ["xsched-kubernetes", "dra"]);
    let patch = fs::read_to_string(deploy("device-plugin/kustomization.yaml")).expect("a file");
    assert!(patch.contains("/spec/template/spec/containers/1/command/1"));
    for mode in ["dra", "device-plugin"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-kubernetes"));
        command.arg(mode).args(&words[2..]).args(["--root", "/nowhere"]).env("NODE_NAME", "n");
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no GPU below /nowhere"), "{said}");
    }
}

#[test]
fn kustomizations_name_files_that_there_are() {
    for folder in ["base", "dra", "device-plugin"] {
        let all = documents(&format!("{folder}/kustomization.yaml"));
        for name in items(&all[0], "resources").map(|name| name.as_str().expect("a path")) {
            assert!(deploy(folder).join(name).exists(), "{folder}: {name}");
        }
    }
}
