# find_package(XSched): the targets XSched::preempt, XSched::halhip, XSched::halcuda,
# XSched::halhost and XSched::shimhip, and the variables
#
#   XSched_INCLUDE_DIRS     the folder of the headers
#   XSched_INTERPOSER_CUDA  the library to preload into programs of CUDA's
#   XSched_RUN              the command that starts a program with its streams scheduled:
#                           add_test(NAME n COMMAND ${XSched_RUN} --class batch -- program)

get_filename_component(_xsched_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(XSched_INCLUDE_DIRS "${_xsched_prefix}/include")
set(XSched_INTERPOSER_CUDA "${_xsched_prefix}/lib/xsched/libshimcuda.so")
set(XSched_RUN "${_xsched_prefix}/bin/xsched" run)
include("${CMAKE_CURRENT_LIST_DIR}/XSchedTargets.cmake")
unset(_xsched_prefix)
