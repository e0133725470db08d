# vesper_compile_quickly([LEVEL]): the targets of this folder that follow, and of those below it, are
# optimised little, or at that level. For code whose own speed nobody notices: all but kernels, audio and
# tokenizers.
function(vesper_compile_quickly)
  set(level 1)
  if(ARGC GREATER 0)
    set(level ${ARGV0})
  endif()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-O${level}>)
endfunction()

# vesper_compile_together(TARGET...): the files of each are compiled as few, which reads the headers
# that they share once. Not in debug builds, where a change to one file should cost one, and where an
# include that is missing shows.
function(vesper_compile_together)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${ARGV} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

# vesper_precompile(TARGET... HEADERS <header>...): the headers that most files of these read are
# compiled once for all of them. vesper_precompile(TARGET... FROM OTHER): with those of another target.
# All of them are to be compiled alike. Not in debug builds, where an include that is missing shows.
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

# GCC looks for memory to take back each time that it has taken 100 MB more, and spends up to a fifth of
# its time on that where there are many templates. From 300 MB on (in KiB) it needs no more than 1 GB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=300000>)
endif()

# Forty programs are linked.
find_program(MOLD mold)
if(MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

# What most files of the project read.
set(VESPER_COMMON_HEADERS <nlohmann/json.hpp> <algorithm> <cmath> <filesystem> <functional> <map> <memory>
  <optional> <span> <string> <string_view> <unordered_map> <vector>)
