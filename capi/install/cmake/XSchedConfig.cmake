# find_package(XSched): the targets XSched::preempt, XSched::halhip, XSched::halcuda,
# XSched::halhost, XSched::shimhip and XSched::shimhost, and the variable XSched_INCLUDE_DIRS.

get_filename_component(_xsched_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(XSched_INCLUDE_DIRS "${_xsched_prefix}/include")
include("${CMAKE_CURRENT_LIST_DIR}/XSchedTargets.cmake")
unset(_xsched_prefix)
