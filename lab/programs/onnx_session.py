"""ONNX Runtime with its CUDA provider, if its wheel has it."""

import common
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
    raise SystemExit("this ONNX Runtime has no CUDA provider")
if hasattr(onnxruntime, "preload_dlls"):
    onnxruntime.preload_dlls()
weights = numpy.random.default_rng(1).standard_normal((512, 512)).astype(numpy.float32) / 23
nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Tanh", ["y"], ["z"])]
value = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes, "g", [value("x", TensorProto.FLOAT, [64, 512])],
    [value("z", TensorProto.FLOAT, [64, 512])],
    [onnx.numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
x = numpy.ones((64, 512), dtype=numpy.float32)
result = None


def request():
    global result
    result = session.run(None, {"x": x})


measured = common.times(request, 100)
common.report(common.digest(result), measured)
