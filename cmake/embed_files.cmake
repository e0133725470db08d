# vesper_embed_files(TARGET FUNCTION file...): compiles files into a target, as the table that this
# function of serve/embedded_files.h returns. Run as a script (cmake -P), it writes the source file
# OUTPUT for FILES.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(VESPER_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(vesper_embed_files target table)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_data.cc)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
    add_custom_command(
      OUTPUT ${source}
      COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUTPUT=${source} -DTABLE=${table} -P ${VESPER_EMBED_SCRIPT}
      DEPENDS ${files} ${VESPER_EMBED_SCRIPT}
      COMMENT "Files of ${target}"
      VERBATIM)
    target_sources(${target} PRIVATE ${source})
  endfunction()
  return()
endif()

set(rows "")
set(arrays "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ ${file} hex HEX)
  file(SHA256 ${file} digest)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  # Lines of 25 bytes.
  string(REPEAT "0x..," 25 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kBytes${index}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"${name}\", \"\\\"${digest}\\\"\", kBytes${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"serve/embedded_files.h\"

namespace vesper {
namespace {
${arrays}
constexpr EmbeddedFile kFiles[] = {
${rows}};
}  // namespace

std::span<const EmbeddedFile> ${TABLE}() { return kFiles; }

}  // namespace vesper
")
