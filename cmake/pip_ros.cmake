# SPDX-License-Identifier: Apache-2.0
# Lets the ordinary ROS 2 build run on ROS 2 installed from PyPI wheels too.
# Beside a sourced ROS 2 installation it changes nothing.

# Where no sourced installation offers the message generators, the prefix of the wheels (a virtual environment, or pip's
# build overlay) is the place to look. An AMENT_PREFIX_PATH of a workspace built on the wheels does not have them either.
set(generators_sourced FALSE)
string(REPLACE ":" ";" sourced_prefixes "$ENV{AMENT_PREFIX_PATH}")
foreach(prefix IN LISTS sourced_prefixes)
  if(EXISTS "${prefix}/share/rosidl_typesupport_c")
    set(generators_sourced TRUE)
  endif()
endforeach()
if(NOT generators_sourced)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import ament_package, pathlib; print(pathlib.Path(ament_package.__file__).parents[4])"
    OUTPUT_VARIABLE wheels_prefix OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE wheels_missing ERROR_QUIET)
  if(NOT wheels_missing)
    list(APPEND CMAKE_PREFIX_PATH "${wheels_prefix}")
    if("$ENV{AMENT_PREFIX_PATH}" STREQUAL "")
      set(ENV{AMENT_PREFIX_PATH} "${wheels_prefix}")
    else()
      set(ENV{AMENT_PREFIX_PATH} "$ENV{AMENT_PREFIX_PATH}:${wheels_prefix}")
    endif()
  endif()
endif()

# Some wheels export an include directory of the machine that built them, and CMake refuses to generate with it.
function(drop_missing_include_directories)
  get_directory_property(imported_targets IMPORTED_TARGETS)
  foreach(imported IN LISTS imported_targets)
    get_target_property(directories ${imported} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT directories)
      continue()
    endif()
    set(kept)
    foreach(directory IN LISTS directories)
      if(directory MATCHES "\\$<" OR EXISTS "${directory}")
        list(APPEND kept "${directory}")
      endif()
    endforeach()
    if(NOT kept STREQUAL directories)
      set_target_properties(${imported} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${kept}")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL drop_missing_include_directories)

# With the virtual environment inside the source tree, numpy's headers lie there too, and CMake refuses to export such a
# path. Whoever uses the generated Python extension has no need of them.
function(keep_source_directories_out_of_exports)
  get_directory_property(own_targets BUILDSYSTEM_TARGETS)
  foreach(own IN LISTS own_targets)
    get_target_property(directories ${own} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT directories)
      continue()
    endif()
    set(wrapped)
    foreach(directory IN LISTS directories)
      string(FIND "${directory}" "${CMAKE_SOURCE_DIR}/" position)
      if(position EQUAL 0)
        list(APPEND wrapped "$<BUILD_INTERFACE:${directory}>")
      else()
        list(APPEND wrapped "${directory}")
      endif()
    endforeach()
    set_target_properties(${own} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${wrapped}")
  endforeach()
endfunction()
cmake_language(DEFER CALL keep_source_directories_out_of_exports)
