# vesper_compile_quickly([LEVEL]): the targets of this folder, and of those below it, are optimised
# little, or at that level. For code whose own speed nobody notices, such as options, reports and
# tests, where the templates of CLI11, nlohmann::json and GoogleTest take most of a build's time.
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

# vesper_precompile(TARGET...): the headers that most files of these read are compiled once for all of
# them. The targets are compiled alike.
function(vesper_precompile first)
  target_precompile_headers(${first} PRIVATE
    <algorithm> <atomic> <chrono> <cmath> <functional> <memory> <string> <thread> <vector>)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()
