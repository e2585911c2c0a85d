# The libraries, wherever the whole of it was moved to. Included by XSchedConfig.cmake.

if(NOT TARGET XSched::preempt)
  add_library(XSched::preempt SHARED IMPORTED)
  set_target_properties(XSched::preempt PROPERTIES
    IMPORTED_LOCATION "${_xsched_prefix}/lib/libpreempt.so"
    IMPORTED_SONAME "libpreempt.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_xsched_prefix}/include")
endif()

foreach(_xsched_library halhip halcuda halhost shimhip)
  if(NOT TARGET XSched::${_xsched_library})
    add_library(XSched::${_xsched_library} SHARED IMPORTED)
    set_target_properties(XSched::${_xsched_library} PROPERTIES
      IMPORTED_LOCATION "${_xsched_prefix}/lib/lib${_xsched_library}.so"
      IMPORTED_SONAME "lib${_xsched_library}.so"
      INTERFACE_LINK_LIBRARIES XSched::preempt)
  endif()
endforeach()
unset(_xsched_library)
