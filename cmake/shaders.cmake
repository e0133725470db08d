# vesper_add_shaders(TARGET name.comp... [DEFINE macro]): compiles name.comp, in a folder of shaders/, to
# SPIR-V, and writes it to the build folder as a header name.spv.h with an array name_spv. all_shaders.h
# includes all of them. Targets with another macro have folders of their own. name_waiting.comp is name.comp
# with VESPER_WAITING defined.
# Uses glslangValidator: -DVESPER_GLSLANG=path, else the one that scripts/setup.sh installs on
# Debian 12, else the one on the PATH. Sets VESPER_GLSLANG_VERSION to its major version.
find_program(VESPER_GLSLANG glslangValidator
  HINTS $ENV{XDG_CACHE_HOME}/vesper/glslang-13.1.1/bin $ENV{HOME}/.cache/vesper/glslang-13.1.1/bin
  DOC "The GLSL compiler that makes SPIR-V of shaders/")
if(NOT VESPER_GLSLANG)
  message(FATAL_ERROR "glslangValidator was not found: install glslang-tools, name it with "
                      "-DVESPER_GLSLANG=path, or build without Vulkan (-DVESPER_VULKAN=OFF)")
endif()
execute_process(COMMAND ${VESPER_GLSLANG} --version OUTPUT_VARIABLE glslang_banner)
if(NOT glslang_banner MATCHES "Glslang Version: [0-9]+:([0-9]+)\\.")
  message(FATAL_ERROR "${VESPER_GLSLANG} --version: expected \"Glslang Version: ...\", found "
                      "\"${glslang_banner}\"")
endif()
set(VESPER_GLSLANG_VERSION ${CMAKE_MATCH_1})

function(vesper_add_shaders target)
  cmake_parse_arguments(ARG "" "DEFINE" "" ${ARGN})
  set(folder ${CMAKE_BINARY_DIR}/shaders${ARG_DEFINE})
  file(MAKE_DIRECTORY ${folder})
  get_target_property(is_known ${target} SHADER_INCLUDES)
  if(NOT is_known)
    file(GENERATE OUTPUT ${folder}/all_shaders.h
         CONTENT "$<JOIN:$<TARGET_PROPERTY:${target},SHADER_INCLUDES>,\n>\n")
  endif()
  file(GLOB_RECURSE included CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/shaders/*.glsl)
  foreach(file_name ${ARG_UNPARSED_ARGUMENTS})
    string(REPLACE ".comp" "" name ${file_name})
    set(define ${ARG_DEFINE})
    if(name MATCHES "(.*)_waiting$")
      set(file_name ${CMAKE_MATCH_1}.comp)
      set(define VESPER_WAITING)
    endif()
    file(GLOB_RECURSE source ${CMAKE_SOURCE_DIR}/shaders/${file_name})
    if(NOT source)
      message(FATAL_ERROR "shaders/: expected ${file_name} in a folder, found none")
    endif()
    set(header ${folder}/${name}.spv.h)
    add_custom_command(
      OUTPUT ${header}
      COMMAND ${VESPER_GLSLANG} --quiet --target-env vulkan1.3 -I${CMAKE_SOURCE_DIR}/shaders
              "$<$<BOOL:${define}>:-D${define}>" -V
              --vn ${name}_spv -o ${header} ${source}
      DEPENDS ${source} ${included}
              ${CMAKE_SOURCE_DIR}/shaders/kernel_params.h
      COMMENT "SPIR-V of ${name}"
      VERBATIM COMMAND_EXPAND_LISTS)
    target_sources(${target} PRIVATE ${header})
    set_property(TARGET ${target} APPEND PROPERTY SHADER_INCLUDES "#include \"${name}.spv.h\"")
  endforeach()
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
