# Compiler flags of every target of the project.
add_compile_options(-Wall -Wextra -Wshadow
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>)
# The same code in the shared library and in programs, which share precompiled headers; no folders of
# the build machine in __FILE__.
add_compile_options(-fPIC -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=${CMAKE_BINARY_DIR}/=)
# False positives: of GCC 12 for std::string (bug 105651), of all versions so far for std::optional (bug
# 105562), and of GCC 13 and later for returned references that do not refer to a temporary argument.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> -Wno-maybe-uninitialized)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
  endif()
endif()
if(VESPER_WERROR)
  add_compile_options(-Werror)
endif()
if(VESPER_SANITIZE)
  # The checks of libstdc++ see accesses outside a vector, but inside its allocation.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_compile_options(-fsanitize=${VESPER_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VESPER_SANITIZE})
endif()
