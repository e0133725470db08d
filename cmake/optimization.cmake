# vesper_compile_quickly([LEVEL]): sets a low optimization level, or LEVEL, for the following targets of
# this folder and its subfolders. For code whose speed does not matter: all except kernels, audio and
# tokenizers.
function(vesper_compile_quickly)
  set(level 1)
  if(ARGC GREATER 0)
    set(level ${ARGV0})
  endif()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-O${level}>)
endfunction()

option(VESPER_UNITY "Compile several files of a target together" ON)

# vesper_compile_together(TARGET...): a unity build of each target, which reads shared headers once. Not
# in debug builds: there a change recompiles one file, and missing includes are found.
function(vesper_compile_together)
  if(VESPER_UNITY AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${ARGV} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

# vesper_precompile(TARGET... HEADERS <header>...): precompiles headers once for these targets.
# vesper_precompile(TARGET... FROM OTHER): uses those of another target. All of them must have the same
# compiler flags. Not in debug builds: there missing includes are found.
function(vesper_precompile)
  cmake_parse_arguments(ARG "" "FROM" "HEADERS" ${ARGN})
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    return()
  endif()
  set(targets ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_HEADERS)
    list(POP_FRONT targets ARG_FROM)
    target_precompile_headers(${ARG_FROM} PRIVATE ${ARG_HEADERS})
  endif()
  foreach(target IN LISTS targets)
    target_precompile_headers(${target} REUSE_FROM ${ARG_FROM})
  endforeach()
endfunction()

# GCC collects garbage after each 100 MB, which takes up to a fifth of its time for files with many
# templates. With a minimum heap of 300 MB (in KiB) it needs at most 1 GB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=300000>)
endif()

# About forty programs are linked, so a fast linker helps.
find_program(MOLD mold)
if(MOLD AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

# Headers that most files of the project include.
set(VESPER_COMMON_HEADERS <nlohmann/json.hpp> <algorithm> <cmath> <filesystem> <functional> <map> <memory>
  <optional> <span> <string> <string_view> <unordered_map> <vector>)
