# Flags that every target of the project is compiled with.
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(VESPER_WERROR)
  add_compile_options(-Werror)
endif()
if(VESPER_SANITIZE)
  add_compile_options(-fsanitize=${VESPER_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VESPER_SANITIZE})
endif()
