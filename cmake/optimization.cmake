# vesper_compile_quickly(): the targets of this folder, and of those below it, are optimised little.
# For code whose own speed nobody notices, such as options, reports and tests, where the templates of
# CLI11, nlohmann::json and GoogleTest take most of a build's time.
function(vesper_compile_quickly)
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()
